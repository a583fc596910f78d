//! The one place where threads are started, named and waited for. A panic in one is resumed in the thread that waits
//! for it. Where the system starts no more of them (`ulimit -u`, a container's limit), those that there are do the work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, Result, scope};

/// A thread by what it does, as `top -H` and perf show it: 15 bytes at most.
fn named(work: &str) -> Builder {
    Builder::new().name(format!("stackfold-{work}"))
}

fn passing_panics_on<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A thread that works on while this one does something else.
pub struct Background<T>(JoinHandle<T>);

impl<T: Send + 'static> Background<T> {
    /// `None` where the system starts no more.
    pub fn start(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Option<Self> {
        named(name).spawn(work).ok().map(Self)
    }

    /// Waits for its end.
    pub fn finish(self) -> T {
        passing_panics_on(self.0.join())
    }
}

/// Does `here` in this thread, which is told how many run, while each of `others` runs in one of its own; returns their results.
/// Those that could not be started are done afterwards.
pub fn beside<T: Send, R>(
    name: &str,
    others: impl IntoIterator<Item: FnOnce() -> T + Send>,
    here: impl FnOnce(usize) -> R,
) -> (R, Vec<T>) {
    let others: Vec<_> = others.into_iter().map(|work| Mutex::new(Some(work))).collect();
    scope(|scope| {
        let started: Vec<_> =
            others.iter().map(|work| named(name).spawn_scoped(scope, || taken(work)).ok()).collect();
        let here = here(started.iter().flatten().count());
        let results = started.into_iter().zip(&others).filter_map(|(started, work)| match started {
            Some(thread) => passing_panics_on(thread.join()),
            None => taken(work),
        });
        (here, results.collect())
    })
}

fn taken<T>(work: &Mutex<Option<impl FnOnce() -> T>>) -> Option<T> {
    let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
    work.map(|work| work())
}

/// What `work` makes of each item, in the order of the items. Threads take the next item when they are free.
pub fn each<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let some = || in_turn(items, &next, &work);
    let (mine, others) = beside("work", (1..threads).map(|_| some), |_| some());
    in_order(others.into_iter().flatten().chain(mine))
}

/// The results of those items that this thread takes, by their places.
fn in_turn<T, R>(items: &[T], next: &AtomicUsize, work: impl Fn(&T) -> R) -> Vec<(usize, R)> {
    let take = || {
        let place = next.fetch_add(1, Ordering::Relaxed);
        items.get(place).map(|item| (place, work(item)))
    };
    std::iter::from_fn(take).collect()
}

fn in_order<R>(results: impl Iterator<Item = (usize, R)>) -> Vec<R> {
    let mut results: Vec<_> = results.collect();
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Drops what takes long to be given back, in another thread if there may be one.
pub fn drop_in_background<T: Send + 'static>(value: T, threads: usize) {
    if threads > 1 {
        // If no thread can be started it is dropped in this one.
        let _ = named("free").spawn(move || drop(value));
    }
}

/// Work that one more thread does while this one does something else.
pub struct BackgroundWork<T, R> {
    shared: Arc<SharedWork<T, R>>,
    other: Option<Background<Vec<(usize, R)>>>,
}

struct SharedWork<T, R> {
    items: Vec<T>,
    next: AtomicUsize,
    work: fn(&T) -> R,
}

impl<T, R> SharedWork<T, R> {
    fn results(&self) -> Vec<(usize, R)> {
        in_turn(&self.items, &self.next, self.work)
    }
}

impl<T: Send + Sync + 'static, R: Send + 'static> BackgroundWork<T, R> {
    pub fn start(name: &str, items: Vec<T>, work: fn(&T) -> R) -> Self {
        let shared = Arc::new(SharedWork { items, next: AtomicUsize::new(0), work });
        let theirs = Arc::clone(&shared);
        Self { shared, other: Background::start(name, move || theirs.results()) }
    }

    /// Helps with what is left, and gives all results.
    pub fn finish(self) -> Vec<(T, R)> {
        let mine = self.shared.results();
        let theirs = self.other.map_or_else(Vec::new, Background::finish);
        let results = in_order(theirs.into_iter().chain(mine));
        let items = Arc::into_inner(self.shared).map_or_else(Vec::new, |shared| shared.items);
        items.into_iter().zip(results).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn what_was_begun_is_finished() {
        for count in [0, 1, 50] {
            let begun = super::BackgroundWork::start("test", (0..count).collect::<Vec<usize>>(), |n| n * 2);
            assert_eq!(begun.finish(), (0..count).map(|n| (n, n * 2)).collect::<Vec<_>>());
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

    #[test]
    fn a_panic_goes_on_where_its_thread_is_waited_for() {
        let begun =
            super::Background::start("test", || -> u8 { panic!("in the background") }).expect("a thread");
        let beside = || super::beside("test", [|| -> u8 { panic!("beside") }], |_| 1);
        for panic in [
            catch_unwind(AssertUnwindSafe(|| begun.finish())).map(|_| ()),
            catch_unwind(AssertUnwindSafe(beside)).map(|_| ()),
        ] {
            assert!(["in the background", "beside"].contains(panic.unwrap_err().downcast_ref().unwrap()));
        }
    }
}
