//! An engine's own threads: their names, and whether they are idle.

use observer::Failure;

/// The state of a thread of this process: whether it sleeps, and its schedstat.
#[derive(PartialEq)]
pub struct Thread {
    pub sleeps: bool,
    ran: String,
}

impl Thread {
    /// Measurement error where no thread has this name.
    pub fn find(name: &str) -> Result<Self, Failure> {
        for entry in std::fs::read_dir("/proc/self/task")? {
            let task = entry?.path();
            let read = |name| std::fs::read_to_string(task.join(name));
            if read("comm").is_ok_and(|comm| comm.trim_end() == name) {
                let stat = read("stat")?;
                let sleeps = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'));
                return Ok(Self { sleeps, ran: read("schedstat")? });
            }
        }
        Err(Failure::measurement(format!("there is no thread {name}"))
            .meaning("whether a compaction is pending is not known"))
    }
}

/// Runs `start` under another name of this thread, which the threads that it starts inherit.
pub fn with_thread_name<T>(name: &str, start: impl FnOnce() -> T) -> T {
    let mut before: [u8; 16] = [0; 16];
    let mut during: [u8; 16] = [0; 16];
    during[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: names of at most 16 bytes that end with 0.
    unsafe {
        libc::prctl(libc::PR_GET_NAME, before.as_mut_ptr());
        libc::prctl(libc::PR_SET_NAME, during.as_ptr());
    }
    let started = start();
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_SET_NAME, before.as_ptr()) };
    started
}
