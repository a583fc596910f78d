//! Instructions, as far as they say where a function is left: x86-64 by a library, aarch64 by the few that jump.

/// An instruction.
pub struct Step {
    /// Where the next one is.
    pub next: u64,
    pub kind: Kind,
    pub stack: Stack,
}

/// What an instruction does to the stack pointer; aarch64: not looked at.
pub enum Stack {
    Kept,
    Moved(i32),
    /// So far from the frame pointer.
    Framed(i32),
    Unknown,
}

/// The stack pointer at a function's entry, from an instruction of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ToEntry {
    /// Counted from the frame pointer, else from the stack pointer.
    pub by_frame: bool,
    pub distance: i32,
}

impl ToEntry {
    /// After one more instruction, of those between the place and the return.
    pub fn after(self, stack: &Stack) -> Option<Self> {
        match stack {
            Stack::Kept => Some(self),
            Stack::Moved(by) => Some(Self { distance: self.distance + by, ..self }),
            Stack::Framed(distance) => Some(Self { by_frame: true, distance: *distance }),
            Stack::Unknown => None,
        }
    }
}

pub enum Kind {
    Other,
    Return,
    /// Where to; and whether it may also not be taken.
    Jump(u64, bool),
    /// Through a register or memory, and not by a table of places in the function.
    JumpByPointer,
    /// What follows is not reached.
    Stop,
}

/// Instructions one after the other.
pub trait Decode {
    /// The one at `at`, which is where the last one ended; None: it is none.
    fn step(&mut self, at: u64) -> Option<Step>;
}

/// As many instructions before a jump through a table load its place from it.
const TABLE: usize = 12;

pub mod x86 {
    use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

    use super::{Decode, Kind, Stack, Step, TABLE};

    pub struct Reader<'data> {
        decoder: Decoder<'data>,
        /// Instructions since the last one that read from a table.
        table: usize,
    }

    impl<'data> Reader<'data> {
        pub fn new(at: u64, bytes: &'data [u8]) -> Self {
            Self { decoder: Decoder::with_ip(64, bytes, at, DecoderOptions::NONE), table: TABLE }
        }
    }

    fn reads_table(instruction: &Instruction) -> bool {
        instruction.op_kinds().any(|kind| kind == OpKind::Memory)
            && instruction.memory_index() != Register::None
            && matches!(instruction.memory_index_scale(), 4 | 8)
    }

    /// The frame pointer is restored last, so that what is counted from it is the function's.
    fn stack_of(instruction: &Instruction) -> Stack {
        let frame =
            instruction.memory_base() == Register::RBP && instruction.memory_index() == Register::None;
        let first = if instruction.op_count() > 0 { instruction.op0_register() } else { Register::None };
        match (instruction.mnemonic(), first) {
            (Mnemonic::Pop, _) => Stack::Moved(8),
            (Mnemonic::Leave, _) => Stack::Framed(8),
            (Mnemonic::Add, Register::RSP) if instruction.op1_kind() != OpKind::Register => {
                i32::try_from(instruction.immediate(1) as i64).map_or(Stack::Unknown, Stack::Moved)
            }
            (Mnemonic::Lea, Register::RSP) if frame => {
                Stack::Framed(instruction.memory_displacement64() as i32)
            }
            (Mnemonic::Mov, Register::RSP) if instruction.op1_register() == Register::RBP => Stack::Framed(0),
            (_, Register::RSP | Register::RBP) => Stack::Unknown,
            _ if instruction.stack_pointer_increment() != 0 => Stack::Unknown,
            _ => Stack::Kept,
        }
    }

    impl Decode for Reader<'_> {
        fn step(&mut self, _: u64) -> Option<Step> {
            let instruction = self.decoder.can_decode().then(|| self.decoder.decode())?;
            if instruction.is_invalid() {
                return None;
            }
            self.table = if reads_table(&instruction) { 0 } else { self.table + 1 };
            let kind = match instruction.flow_control() {
                FlowControl::Return => Kind::Return,
                FlowControl::UnconditionalBranch => Kind::Jump(instruction.near_branch_target(), false),
                FlowControl::ConditionalBranch => Kind::Jump(instruction.near_branch_target(), true),
                FlowControl::IndirectBranch if self.table < TABLE => Kind::Stop,
                FlowControl::IndirectBranch => Kind::JumpByPointer,
                FlowControl::Exception | FlowControl::Interrupt => Kind::Stop,
                _ => Kind::Other,
            };
            Some(Step { next: instruction.next_ip(), kind, stack: stack_of(&instruction) })
        }
    }

    /// What the instruction calls: an address, or through the pointer at one.
    pub enum Called {
        Address(u64),
        Pointer(u64),
    }

    pub fn called(at: u64, bytes: &[u8]) -> Option<Called> {
        let call = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).into_iter().next()?;
        match call.flow_control() {
            FlowControl::Call => Some(Called::Address(call.near_branch_target())),
            FlowControl::IndirectCall if call.is_ip_rel_memory_operand() => {
                Some(Called::Pointer(call.ip_rel_memory_address()))
            }
            _ => None,
        }
    }

    /// Where the pointer is that a stub jumps through, behind a landing pad or not.
    pub fn pointer_of_stub(at: u64, bytes: &[u8]) -> Option<u64> {
        let decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
        let jump =
            decoder.into_iter().take(2).find(|one| one.flow_control() == FlowControl::IndirectBranch)?;
        jump.is_ip_rel_memory_operand().then(|| jump.ip_rel_memory_address())
    }
}

/// Arm Architecture Reference Manual for A-profile, C4.1 (encodings of branches, of loads and of addresses).
pub mod aarch64 {
    use super::{Decode, Kind, Stack, Step, TABLE};

    pub struct Reader<'data> {
        begin: u64,
        bytes: &'data [u8],
        /// Instructions since the last one that loaded from a register and an index.
        table: usize,
    }

    impl<'data> Reader<'data> {
        pub fn new(begin: u64, bytes: &'data [u8]) -> Self {
            Self { begin, bytes, table: TABLE }
        }
    }

    fn word(bytes: &[u8], from: usize) -> Option<u32> {
        Some(u32::from_le_bytes(bytes.get(from..from.checked_add(4)?)?.try_into().ok()?))
    }

    /// The signed number of `bits` from bit `low` on.
    fn signed(word: u32, low: u32, bits: u32) -> i64 {
        i64::from((word << (32 - low - bits)) as i32 >> (32 - bits))
    }

    impl Decode for Reader<'_> {
        fn step(&mut self, at: u64) -> Option<Step> {
            let word = word(self.bytes, (at - self.begin) as usize)?;
            // ldr and the like, [Xn, Xm].
            self.table = if word & 0x3b20_0c00 == 0x3820_0800 { 0 } else { self.table + 1 };
            let to = |low, bits| at.wrapping_add_signed(signed(word, low, bits) * 4);
            let kind = match word {
                // ret; retaa, retab
                _ if word & 0xffff_fc1f == 0xd65f_0000 || word & 0xffff_fbff == 0xd65f_0bff => Kind::Return,
                // b
                _ if word & 0xfc00_0000 == 0x1400_0000 => Kind::Jump(to(0, 26), false),
                // b.cond; cbz, cbnz
                _ if word & 0xff00_0000 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 => {
                    Kind::Jump(to(5, 19), true)
                }
                // tbz, tbnz
                _ if word & 0x7e00_0000 == 0x3600_0000 => Kind::Jump(to(5, 14), true),
                // br; braa, brab and those without a modifier
                _ if word & 0xfeff_f000 == 0xd61f_0000 => {
                    if self.table < TABLE {
                        Kind::Stop
                    } else {
                        Kind::JumpByPointer
                    }
                }
                // udf; brk
                _ if word & 0xffff_0000 == 0 || word & 0xffe0_001f == 0xd420_0000 => Kind::Stop,
                _ => Kind::Other,
            };
            Some(Step { next: at + 4, kind, stack: Stack::Unknown })
        }
    }

    /// Where the pointer is that a stub jumps through: adrp x16, PAGE; ldr x17, [x16, #OFFSET], behind a landing pad or not.
    pub fn pointer_of_stub(at: u64, bytes: &[u8]) -> Option<u64> {
        let first = if word(bytes, 0)? == 0xd503_245f { 4 } else { 0 };
        let (adrp, load) = (word(bytes, first)?, word(bytes, first + 4)?);
        if adrp & 0x9f00_001f != 0x9000_0010 || load & 0xffc0_03ff != 0xf940_0211 {
            return None;
        }
        let pages = (signed(adrp, 5, 19) << 2) | i64::from((adrp >> 29) & 3);
        let page = ((at + first as u64) & !0xfff).wrapping_add_signed(pages << 12);
        Some(page + u64::from((load >> 10) & 0xfff) * 8)
    }
}
