//! What a query's time went into. A thread runs, can run, or is blocked; the last two are seen, the first is what is left,
//! so that the parts add up to the query to the ns.

/// In the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryPart {
    OnCpu,
    /// Preempted, or woken and not running yet.
    RunQueue,
    /// Blocked until the awaited request was issued.
    BlockQueue,
    /// From then until it completed.
    Device,
    /// From then until the thread was woken.
    WakeUp,
    /// Until a request that another thread made completed.
    OthersDevice,
    /// In the kernel's wait for IO, for no request that was seen.
    UnknownIo,
    PageFault,
    /// Locks, conditions, sleeps: told apart by the waits.
    Blocked,
    /// Blocked while an IO limit of the control group held the awaited request back.
    Throttle,
}

/// As results name them.
pub const PARTS: [&str; 10] = [
    "on_cpu",
    "run_queue",
    "block_queue",
    "device",
    "wake_up",
    "others_device",
    "unknown_io",
    "page_fault",
    "blocked",
    "throttle",
];

/// What a blocked thread waited for, as far as its state and stack tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// It was preempted.
    Nothing,
    Storage,
    Page,
    Another,
}

/// One wait, within its query.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    pub left: u64,
    pub woken: u64,
    pub runs: u64,
    /// When a request of another thread's completed that it was woken by; 0: none.
    pub other: u64,
    pub awaited: Awaited,
    /// There were more own requests than are known.
    pub more: bool,
}

/// An own request; 0 where a point was not seen.
#[derive(Clone, Copy, Debug)]
pub struct OwnRequest {
    /// When its turn came, where an IO limit held it back; 0: none did.
    pub held_until: u64,
    pub issued: u64,
    pub completed: u64,
}

/// The ns of each part.
pub type Parts = [u64; PARTS.len()];

impl Wait {
    /// The same with its points in order, none outside of its query.
    pub fn within(self, begin: u64, end: u64) -> Self {
        let left = self.left.clamp(begin, end);
        let runs = self.runs.clamp(left, end);
        Self { left, woken: self.woken.clamp(left, runs), runs, ..self }
    }

    /// Adds it up; the request that it was for, by its place, and what the blocked time is.
    ///
    /// Of its own requests the one that completed last before the wake-up is the one that was waited for.
    pub fn add_to(&self, parts: &mut Parts, requests: &[OwnRequest]) -> (Option<usize>, QueryPart) {
        let mut add = |part: QueryPart, ns: u64| parts[part as usize] += ns;
        add(QueryPart::RunQueue, self.runs - self.woken);
        let blocked = self.woken - self.left;
        let ended = |request: &OwnRequest| request.completed > self.left && request.completed <= self.woken;
        let own = requests.iter().enumerate().filter(|(_, request)| ended(request));
        let last = own.max_by_key(|(_, request)| request.completed);
        match (self.awaited, last) {
            (Awaited::Nothing, _) => {
                add(QueryPart::RunQueue, blocked);
                (None, QueryPart::RunQueue)
            }
            (Awaited::Page, _) => {
                add(QueryPart::PageFault, blocked);
                (None, QueryPart::PageFault)
            }
            (Awaited::Storage, Some((place, request))) => {
                let issued = request.issued.clamp(self.left, request.completed);
                let begun = request.held_until.clamp(self.left, issued);
                add(QueryPart::Throttle, begun - self.left);
                add(QueryPart::BlockQueue, issued - begun);
                add(QueryPart::Device, request.completed - issued);
                let rest = if self.more { QueryPart::UnknownIo } else { QueryPart::WakeUp };
                add(rest, self.woken - request.completed);
                (Some(place), QueryPart::Device)
            }
            (Awaited::Storage, None) if self.other > self.left && self.other <= self.woken => {
                add(QueryPart::OthersDevice, self.other - self.left);
                add(QueryPart::WakeUp, self.woken - self.other);
                (None, QueryPart::OthersDevice)
            }
            (Awaited::Storage, None) => {
                add(QueryPart::UnknownIo, blocked);
                (None, QueryPart::UnknownIo)
            }
            (Awaited::Another, _) => {
                add(QueryPart::Blocked, blocked);
                (None, QueryPart::Blocked)
            }
        }
    }
}

/// Gives what is left of the query to the CPU; how much more the other parts were than the query (0 in a sound record).
pub fn close(parts: &mut Parts, whole: u64) -> u64 {
    let off: u64 = parts[1..].iter().sum();
    parts[QueryPart::OnCpu as usize] = whole.saturating_sub(off);
    off.saturating_sub(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Wait =
        Wait { left: 100, woken: 900, runs: 1000, other: 0, awaited: Awaited::Storage, more: false };

    fn parts(wait: Wait, requests: &[OwnRequest]) -> (Parts, Option<usize>) {
        let mut parts = [0; PARTS.len()];
        let (place, _) = wait.add_to(&mut parts, requests);
        assert_eq!(parts.iter().sum::<u64>(), wait.runs - wait.left);
        (parts, place)
    }

    #[test]
    fn the_own_request_that_completed_last_is_the_awaited_one() {
        let first = OwnRequest { held_until: 0, issued: 50, completed: 300 };
        let second = OwnRequest { held_until: 0, issued: 150, completed: 880 };
        let later = OwnRequest { held_until: 0, issued: 950, completed: 990 };
        let unseen = OwnRequest { held_until: 0, issued: 0, completed: 0 };
        let (found, place) = parts(WAIT, &[first, second, later, unseen]);
        assert_eq!((found, place), ([0, 100, 50, 730, 20, 0, 0, 0, 0, 0], Some(1)));
        // Issued while the thread still ran.
        assert_eq!(parts(WAIT, &[first]).0, [0, 100, 0, 200, 600, 0, 0, 0, 0, 0]);
        // Of more than are known another one may have been the last.
        assert_eq!(parts(Wait { more: true, ..WAIT }, &[first]).0, [0, 100, 0, 200, 0, 0, 600, 0, 0, 0]);
        // Over before the thread slept: it waited for another one.
        let over = OwnRequest { held_until: 0, issued: 50, completed: 90 };
        assert_eq!(parts(WAIT, &[over]), ([0, 100, 0, 0, 0, 0, 800, 0, 0, 0], None));
    }

    #[test]
    fn what_a_limit_held_back_waited_for_its_turn_first() {
        let held = OwnRequest { held_until: 700, issued: 750, completed: 880 };
        assert_eq!(parts(WAIT, &[held]), ([0, 100, 50, 130, 20, 0, 0, 0, 0, 600], Some(0)));
        // Its turn came before the thread slept.
        assert_eq!(
            parts(WAIT, &[OwnRequest { held_until: 90, ..held }]).0,
            [0, 100, 650, 130, 20, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn without_an_own_request_it_was_anothers_or_is_unknown() {
        assert_eq!(parts(Wait { other: 890, ..WAIT }, &[]).0, [0, 100, 0, 0, 10, 790, 0, 0, 0, 0]);
        assert_eq!(parts(Wait { other: 90, ..WAIT }, &[]).0, [0, 100, 0, 0, 0, 0, 800, 0, 0, 0]);
        let own = OwnRequest { held_until: 0, issued: 120, completed: 800 };
        assert_eq!(parts(Wait { other: 890, ..WAIT }, &[own]).0, [0, 100, 20, 680, 100, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_no_wait_for_storage_is_whole() {
        let own = OwnRequest { held_until: 0, issued: 120, completed: 800 };
        for (awaited, part) in [(Awaited::Nothing, 1), (Awaited::Page, 7), (Awaited::Another, 8)] {
            let (found, place) = parts(Wait { awaited, ..WAIT }, &[own]);
            assert_eq!((found[1], place), (if part == 1 { 900 } else { 100 }, None));
            assert_eq!(found[part], if part == 1 { 900 } else { 800 });
        }
    }

    #[test]
    fn points_outside_of_the_query_or_out_of_order_are_brought_in() {
        let wait = Wait { left: 50, woken: 40, runs: 2000, ..WAIT }.within(100, 1000);
        assert_eq!((wait.left, wait.woken, wait.runs), (100, 100, 1000));
    }

    #[test]
    fn what_is_left_is_the_cpus() {
        let mut found = [0, 100, 0, 200, 0, 0, 0, 0, 0, 0];
        assert_eq!((close(&mut found, 1000), found[0]), (0, 700));
        assert_eq!((close(&mut found, 250), found[0]), (50, 0));
    }
}
