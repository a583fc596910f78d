//! Sequences, one behind the other.

/// Sequences by number, from 0 in the order they were added.
#[derive(Clone)]
pub struct Runs<T> {
    items: Vec<T>,
    /// Where each sequence ends.
    ends: Vec<usize>,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self { items: Vec::new(), ends: Vec::new() }
    }
}

impl<T: Copy> Runs<T> {
    /// Adds what `fill` appends to all items, as one sequence.
    pub fn add(&mut self, fill: impl FnOnce(&mut Vec<T>)) {
        fill(&mut self.items);
        self.ends.push(self.items.len());
    }

    /// How many sequences there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn get(&self, number: usize) -> &[T] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.items[start..self.ends[number]]
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[T]> {
        (0..self.len()).map(|number| self.get(number))
    }

    /// The items of all sequences.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Takes so many items from the end of each sequence.
    pub fn shorten(&mut self, by: &[usize]) {
        if by.iter().all(|&by| by == 0) {
            return;
        }
        let mut shorter = Self { items: Vec::with_capacity(self.items.len()), ends: Vec::new() };
        for (sequence, by) in self.iter().zip(by) {
            shorter.add(|items| items.extend_from_slice(&sequence[..sequence.len() - by]));
        }
        *self = shorter;
    }

    pub fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

#[cfg(test)]
mod tests {
    use super::Runs;

    #[test]
    fn sequences_come_back_by_number() {
        let mut runs = Runs::default();
        for len in [2_usize, 0, 3] {
            runs.add(|items| items.extend(0..len));
        }
        assert_eq!(runs.iter().collect::<Vec<_>>(), [&[0, 1][..], &[], &[0, 1, 2]]);
        assert_eq!((runs.len(), runs.items()), (3, &[0, 1, 0, 1, 2][..]));
        runs.shorten(&[1, 0, 2]);
        assert_eq!(runs.iter().collect::<Vec<_>>(), [&[0][..], &[], &[0]]);
    }
}
