//! Frames whose place framehop cannot compute (x86-64). It follows the stack and the frame pointer, and no expression
//! that reads memory; code that aligns its stack keeps its frame in another register: `_dl_runtime_resolve_xsavec` at
//! `rbx + 32`, the ciphers of OpenSSL at `rax + 8`, or where `[rsp + 56]` points.
//!
//! The formulas are those of DWARF 5, section 6.4. What a register held when a function made its call is found by
//! asking each function further in whether, and where, it saved it.
//!
//! This module can go when framehop (0.16) does two things: keep all general registers in `UnwindRegsX86_64`, not ip,
//! sp and bp alone, with a CFA relative to any of them; and evaluate `DW_CFA_def_cfa_expression` with `DW_OP_deref` and
//! branches, with a bound on the steps.

use super::Machine;
use super::eh_frame::{DwarfSlice, EhFrames, Fde, is_followed, needs_more, row};
use super::sections::{MappedObject, UnwindSections};
use framehop::x86_64::UnwindRegsX86_64;
use gimli::{
    CfaRule, Error, EvaluationResult, Expression, Location, Register, RegisterRule, UnwindContext,
    UnwindTableRow, Value, X86_64,
};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// Registers by DWARF's number.
pub type General = [u64; 16];

/// Those that a function gives back as it found them, beside stack and frame pointer.
const KEPT: [Register; 5] = [X86_64::RBX, X86_64::R12, X86_64::R13, X86_64::R14, X86_64::R15];
/// Steps of an expression; it could go round for ever.
const STEPS: u32 = 256;

/// A file in an address space, as far as this module needs it.
pub struct CfaFile {
    range: Range<u64>,
    /// What to add to the file's own addresses.
    pub bias: u64,
    pub sections: Arc<UnwindSections>,
}

impl CfaFile {
    /// What describes the frame at an address in a function, if framehop does not follow it there.
    fn unfollowed<'f, 'c>(
        &'f self,
        entry: usize,
        address: u64,
        context: &'c mut UnwindContext<usize>,
    ) -> Option<(EhFrames<'f>, Fde<'f>, &'c UnwindTableRow<usize>)> {
        let frames = self.sections.frames()?;
        let entry = frames.entry(entry)?;
        let row = row(&frames, &entry, context, address.wrapping_sub(self.bias))?;
        let followed = match row.cfa() {
            CfaRule::RegisterAndOffset { register, .. } => is_followed(*register),
            CfaRule::Expression(expression) => !needs_more(expression.get(&frames.eh_frame).ok()?, &entry),
        };
        (!followed).then_some((frames, entry, row))
    }
}

/// The files of one address space, in order.
#[derive(Default)]
pub struct CfaFiles {
    files: Vec<CfaFile>,
    /// Where such functions lie, in order, with their file and where they are described in it.
    functions: Vec<(Range<u64>, usize, usize)>,
    /// Whether one may lie in a page of memory: asked for every frame, and nearly never so.
    pages: Vec<bool>,
}

/// Page numbers are taken modulo this.
const PAGES: u64 = 1 << 12;
const PAGE_LOG2: u32 = 12;

impl CfaFiles {
    pub fn new<'m>(machine: Machine, mapped: impl Iterator<Item = &'m MappedObject>) -> Self {
        let file = |file: &MappedObject| CfaFile {
            range: file.range(),
            bias: file.bias(),
            sections: Arc::clone(&file.sections),
        };
        let mut files: Vec<CfaFile> = mapped.map(file).collect();
        files.sort_by_key(|file| file.range.start);
        let mut functions = Vec::new();
        for (index, file) in files.iter().enumerate().filter(|_| machine == Machine::X86_64) {
            let here = file.sections.with_other_cfa().iter().map(|function| {
                let Range { start, end } = function.range;
                (start.wrapping_add(file.bias)..end.wrapping_add(file.bias), index, function.entry)
            });
            functions.extend(here.filter(|(range, ..)| file.range.contains(&range.start)));
        }
        functions.sort_by_key(|(range, ..)| range.start);
        let mut pages = vec![false; if functions.is_empty() { 0 } else { PAGES as usize }];
        for (Range { start, end }, ..) in &functions {
            let (first, last) = (start >> PAGE_LOG2, end >> PAGE_LOG2);
            // A damaged one may be as long as it likes.
            (first..=last).take(pages.len()).for_each(|page| pages[(page % PAGES) as usize] = true);
        }
        Self { files, functions, pages }
    }

    /// The function around an address that framehop does not follow everywhere.
    fn function(&self, address: u64) -> Option<(&CfaFile, usize)> {
        let page = (address >> PAGE_LOG2) % PAGES;
        if !self.pages.get(page as usize).is_some_and(|&may| may) {
            return None;
        }
        let after = self.functions.partition_point(|(range, ..)| range.start <= address);
        let (range, file, entry) = self.functions.get(after.checked_sub(1)?)?;
        range.contains(&address).then(|| (&self.files[*file], *entry))
    }

    pub fn file(&self, address: u64) -> Option<&CfaFile> {
        let after = self.files.partition_point(|file| file.range.start <= address);
        self.files.get(after.checked_sub(1)?).filter(|file| file.range.contains(&address))
    }
}

/// What registers held when a frame of a walk was executing, so that each frame is asked once for what it saved.
#[derive(Clone, Copy, Default)]
pub struct SavedRegisters {
    frame: usize,
    values: [Option<u64>; KEPT.len()],
}

/// What is known of the frames so far, innermost first.
pub struct CfaUnwinder<'w> {
    pub files: &'w CfaFiles,
    /// Registers at the innermost.
    pub general: &'w General,
    /// Address to look each up by, and its stack pointer; the last is the frame to unwind.
    pub frames: &'w [(u64, u64)],
    /// Of the same walk.
    pub saved: &'w Cell<SavedRegisters>,
}

/// Where a frame returns to.
pub enum CallerFrame {
    /// For framehop to find out.
    Followed,
    At(u64),
    /// The tables say, but what they build on is not known: a stack that was cut, or damage.
    Unknown,
}

impl CfaUnwinder<'_> {
    /// Leaves the last frame if framehop cannot. `registers` are then those of the caller.
    pub fn unwind_frame(
        &self,
        registers: &mut UnwindRegsX86_64,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> CallerFrame {
        let &(address, sp) = self.frames.last().expect("the frame to unwind");
        let Some((file, entry)) = self.files.function(address) else { return CallerFrame::Followed };
        let mut context = UnwindContext::new();
        let Some((frames, entry, row)) = file.unfollowed(entry, address, &mut context) else {
            return CallerFrame::Followed;
        };
        let mut evaluation = Evaluation { walked: self, frames: &frames, entry: &entry, registers, read };
        let Some((cfa, bp, back)) = evaluation.caller(row, sp) else { return CallerFrame::Unknown };
        *registers = UnwindRegsX86_64::new(back, cfa, bp);
        CallerFrame::At(back)
    }

    /// What a register held when the last frame was executing.
    fn held(&self, register: Register, read: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
        if self.frames.len() == 1 {
            return self.general.get(usize::from(register.0)).copied();
        }
        let at = KEPT.iter().position(|&kept| kept == register)?;
        let SavedRegisters { mut frame, mut values } = self.saved.get();
        if frame == 0 {
            values = KEPT.map(|register| self.general.get(usize::from(register.0)).copied());
        }
        // Each function but the last may have saved some, relative to its own frame, which ends where its caller's stack
        // does.
        for step in self.frames[frame..].windows(2) {
            self.restore(step[0].0, step[1].1, &mut values, read);
        }
        frame = self.frames.len() - 1;
        self.saved.set(SavedRegisters { frame, values });
        values[at]
    }

    /// What the caller of the function around an address has in the registers.
    fn restore(
        &self,
        address: u64,
        cfa: u64,
        values: &mut [Option<u64>; KEPT.len()],
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) {
        let mut context = UnwindContext::new();
        let mut described = || {
            let file = self.files.file(address)?;
            let address = address.wrapping_sub(file.bias);
            let frames = file.sections.frames()?;
            row(&frames, &frames.entry_of(address)?, &mut context, address).cloned()
        };
        let row = described();
        for (value, register) in values.iter_mut().zip(KEPT) {
            *value = match row.as_ref().map(|row| row.register(register)) {
                Some(None | Some(RegisterRule::SameValue)) => *value,
                Some(Some(RegisterRule::Offset(offset))) => read(cfa.wrapping_add_signed(offset)).ok(),
                _ => None,
            };
        }
    }
}

/// Where rules are computed: a frame, what it is described by, and the stack.
struct Evaluation<'s, 'w, 'a, R> {
    walked: &'s CfaUnwinder<'w>,
    frames: &'s EhFrames<'a>,
    entry: &'s Fde<'a>,
    registers: &'s UnwindRegsX86_64,
    read: &'s mut R,
}

impl<R: FnMut(u64) -> Result<u64, ()>> Evaluation<'_, '_, '_, R> {
    fn register(&mut self, register: Register) -> Option<u64> {
        match register {
            X86_64::RSP => Some(self.registers.sp()),
            X86_64::RBP => Some(self.registers.bp()),
            X86_64::RA => Some(self.registers.ip()),
            other => self.walked.held(other, self.read),
        }
    }

    /// The caller's stack and frame pointer, and the address to return to.
    fn caller(&mut self, row: &UnwindTableRow<usize>, sp: u64) -> Option<(u64, u64, u64)> {
        let cfa = self.cfa(row.cfa()).filter(|cfa| *cfa > sp)?;
        let back = self.restored(row.register(X86_64::RA)?, cfa, None)?;
        let bp = self.registers.bp();
        let bp = row.register(X86_64::RBP).map_or(Some(bp), |rule| self.restored(rule, cfa, Some(bp)))?;
        Some((cfa, bp, back))
    }

    fn cfa(&mut self, rule: &CfaRule<usize>) -> Option<u64> {
        match rule {
            CfaRule::RegisterAndOffset { register, offset } => {
                Some(self.register(*register)?.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => {
                self.value(expression.get(&self.frames.eh_frame).ok()?, None).ok().flatten()
            }
        }
    }

    /// What the caller has in a register; `now` is what is in it here.
    fn restored(&mut self, rule: RegisterRule<usize>, cfa: u64, now: Option<u64>) -> Option<u64> {
        let section = &self.frames.eh_frame;
        match rule {
            RegisterRule::SameValue => now,
            RegisterRule::Offset(offset) => (self.read)(cfa.wrapping_add_signed(offset)).ok(),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(offset)),
            RegisterRule::Register(register) => self.register(register),
            RegisterRule::Expression(expression) => {
                let place = self.value(expression.get(section).ok()?, Some(cfa)).ok()??;
                (self.read)(place).ok()
            }
            RegisterRule::ValExpression(expression) => {
                self.value(expression.get(section).ok()?, Some(cfa)).ok().flatten()
            }
            _ => None,
        }
    }

    /// The value of an expression that begins with `cfa` on its stack.
    fn value(&mut self, expression: Expression<DwarfSlice>, cfa: Option<u64>) -> Result<Option<u64>, Error> {
        let mut evaluation = expression.evaluation(self.entry.cie().encoding());
        evaluation.set_max_iterations(STEPS);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut result = evaluation.evaluate()?;
        loop {
            let value = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => self.register(register),
                EvaluationResult::RequiresMemory { address, size: 8, space: None, .. } => {
                    (self.read)(address).ok()
                }
                _ => None,
            };
            let Some(value) = value.map(Value::Generic) else { return Ok(None) };
            result = match result {
                EvaluationResult::RequiresRegister { .. } => evaluation.resume_with_register(value)?,
                _ => evaluation.resume_with_memory(value)?,
            };
        }
        Ok(match evaluation.as_result().last().map(|piece| &piece.location) {
            Some(Location::Address { address }) => Some(*address),
            _ => None,
        })
    }
}
