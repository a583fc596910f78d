//! The code that a process has mapped: at the beginning, and what was new at each later look.

use std::fs;

use observer::Process;
use recording::{Mapping, Modules};

pub struct MappedCode<'a> {
    process: &'a Process,
    modules: Modules,
    /// Each with its build id.
    pub seen: Vec<(Mapping, Option<Vec<u8>>)>,
}

impl<'a> MappedCode<'a> {
    pub fn of(process: &'a Process) -> Self {
        let mut code = Self { process, modules: Modules::default(), seen: Vec::new() };
        code.update();
        code
    }

    pub fn update(&mut self) {
        let text = fs::read(self.process.path("maps")).unwrap_or_default();
        let pid = nix::unistd::Pid::from_raw(self.process.pid() as i32);
        self.seen.extend(self.modules.update(pid, &recording::parse::maps(&text)));
    }
}
