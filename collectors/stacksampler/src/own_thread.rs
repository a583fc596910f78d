//! Threads of this program: one writes, one waits for orders, and each turn has one to sample in.

use crate::tracer::PATIENCE;
use observer::Failure;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

/// What `work` comes to in a thread that runs before the target's where it may, which `work` learns. When this returns
/// the kernel has released whatever that thread traced, stopped by then or not.
pub fn traces<T: Send>(work: impl FnOnce(bool) -> T + Send) -> Result<T, Failure> {
    let (done, tid) = thread::scope(|scope| {
        let thread = spawn(scope, || (work(put_ahead()), nix::unistd::gettid()))?;
        Ok::<_, Failure>(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    // That it has ended is said before what it traced is released; it is listed until then.
    while Path::new(&format!("/proc/self/task/{tid}")).exists() {
        thread::sleep(PATIENCE / 40);
    }
    Ok(done)
}

/// Errors: the system starts none.
pub fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Failure> {
    Builder::new()
        .spawn_scoped(scope, work)
        .map_err(|error| Failure::host(format!("the system starts no thread to sample in: {error}")))
}

/// Lets this thread run before the target's when it wakes up, because while it waits for a CPU one of them is stopped.
/// It sleeps nearly always, and never runs for longer than a round.
fn put_ahead() -> bool {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the call reads one structure, which lives on our stack; nix and std have no call for it.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}
