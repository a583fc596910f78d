//! Work shared out among threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// What `work` makes of each item, in the order of the items. Threads take the next item when they are free.
pub fn each<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        while let Some((index, item)) = {
            let n = next.fetch_add(1, Ordering::Relaxed);
            items.get(n).map(|item| (n, item))
        } {
            done.push((index, work(item)));
        }
        done
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut done = take();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Drops what takes long to be given back, in another thread if there may be one.
pub fn drop_in_background<T: Send + 'static>(value: T, threads: usize) {
    if threads > 1 {
        // Where none can be started it is dropped here.
        let _ = std::thread::Builder::new().spawn(move || drop(value));
    }
}

/// Work that one more thread does while this one does something else.
pub struct Prefetch<T, R> {
    shared: Arc<Shared<T, R>>,
    other: JoinHandle<()>,
}

struct Shared<T, R> {
    items: Vec<(T, OnceLock<R>)>,
    next: AtomicUsize,
    work: fn(&T) -> R,
}

impl<T, R> Shared<T, R> {
    fn take(&self) {
        while let Some((item, result)) = self.items.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            // Nobody else took this one.
            let _ = result.set((self.work)(item));
        }
    }
}

impl<T: Send + Sync + 'static, R: Send + Sync + 'static> Prefetch<T, R> {
    pub fn start(items: Vec<T>, work: fn(&T) -> R) -> Self {
        let items = items.into_iter().map(|item| (item, OnceLock::new())).collect();
        let shared = Arc::new(Shared { items, next: AtomicUsize::new(0), work });
        let theirs = Arc::clone(&shared);
        Self { shared, other: std::thread::spawn(move || theirs.take()) }
    }

    /// Helps with what is left, and gives all results.
    pub fn finish(self) -> Vec<(T, R)> {
        self.shared.take();
        if let Err(panic) = self.other.join() {
            std::panic::resume_unwind(panic);
        }
        let items = Arc::into_inner(self.shared).map_or_else(Vec::new, |shared| shared.items);
        items.into_iter().filter_map(|(item, result)| Some((item, result.into_inner()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_was_begun_is_finished() {
        for count in [0, 1, 50] {
            let ahead = super::Prefetch::start((0..count).collect::<Vec<usize>>(), |n| n * 2);
            assert_eq!(ahead.finish(), (0..count).map(|n| (n, n * 2)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        for threads in [1, 2, 7, 200] {
            assert_eq!(
                super::each(&items, threads, |n| n * 2),
                items.iter().map(|n| n * 2).collect::<Vec<_>>()
            );
        }
    }
}
