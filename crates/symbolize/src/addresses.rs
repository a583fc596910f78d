//! The three numbers that one instruction has. Taking one for another gives a wrong symbol and no error, so each is a
//! type.
//!
//! ```text
//!      in the process             in the file              as linked
//!      ProcessAddress             FileOffset               ObjectAddress
//!
//!                                 0x0    +----------+
//!                                        | headers  |
//!      0x7f..2000 +----------+    0x1000 +==========+      0x2000 +==========+
//!                 | mapping  |           | segment  |             | segment  |
//!  ip  0x7f..2a40 | - - - -  |    0x1a40 | - - - -  |      0x2a40 | - - - -  |  symbols, DWARF, .eh_frame
//!                 |          |           |          |             |          |
//!      0x7f..4000 +----------+    0x3000 +==========+      0x4000 +==========+
//!
//!                 ------ Map::file_bias ----->  --- p_vaddr - p_offset --->
//!                 ------------ range.start - first of MappedObject ------->   (its negative: framehop's bias)
//! ```
//!
//! A recording has the mapping: where it begins and ends, and the file's offset at its beginning (`MMAP2`). The file
//! has its segments (`PT_LOAD`): `p_offset` in the file, `p_vaddr` as linked. perf prints offsets, symbol tables state
//! addresses; in many files the two are equal for `.text`, which hides a mix-up until one comes where they are not.
//!
//! Code without a file (the kernel, what run-time compilers make) is counted as if the whole address space were one
//! file that was linked where it is: all three are the same number.

/// Where a process, or the kernel, sees an instruction: what the registers and the chains of a recording hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessAddress(pub u64);

impl ProcessAddress {
    /// The offset of code without a file: the address itself.
    pub fn without_file(self) -> FileOffset {
        FileOffset(self.0)
    }
}

/// An offset in the file that was mapped, in bytes from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileOffset(pub u64);

impl FileOffset {
    /// The address of code without a file.
    pub fn without_file(self) -> ObjectAddress {
        ObjectAddress(self.0)
    }
}

/// The virtual address that the file itself states: in its symbol tables, debug information and unwind tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectAddress(pub u64);
