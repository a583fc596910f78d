//! Kernel and modules: where their functions' names come from, and what is shown where there are none.

use crate::common::recording::*;
use crate::common::{Files, fold_recording};
use stackfold::collector::Options;

const KERNEL_ID: [u8; 20] = [0xab; 20];
const TEXT: u64 = 0xffff_ffff_8100_0000;
const EXT4: u64 = 0xffff_ffff_c010_0000;
const CONNTRACK: u64 = 0xffff_ffff_c020_0000;
const XFS: u64 = 0xffff_ffff_c030_0000;
const FUSE: u64 = 0xffff_ffff_c040_0000;

/// As the kernel prints it: sorted, modules behind a tab.
const KALLSYMS: &str = "ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000100 T vfs_read\n\
    ffffffff81000200 t do_syscall_64\nffffffffc0100000 t ext4_readpage\t[ext4]\n\
    ffffffffc0100040 T ext4_file_read_iter\t[ext4]\nffffffffc0100080 d ext4_table\t[ext4]\n\
    ffffffffc0200000 t nf_hook\t[nf_conntrack]\nffffffffc0400000 t fuse_read\t[fuse]\n";

/// A cache of perf's with this copy of kallsyms.
fn cache(kallsyms: &str) -> Files {
    let files = Files::new();
    let directory = files.path(&format!(".build-id/ab/{}", "ab".repeat(19)));
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(directory + "/kallsyms", kallsyms).expect("writing");
    files
}

/// A file system's stacks, modules mapped as perf notes them: by path where it found the file, by name where not.
fn recording() -> Vec<u8> {
    let mut records = Records::default();
    records.mmap2(0, TEXT, 0x100_0000, TEXT, KERNEL_ID, "[kernel.kallsyms]_text");
    for (start, path) in [
        (EXT4, "/lib/modules/6.1.0-18-amd64/kernel/fs/ext4/ext4.ko.xz"),
        (CONNTRACK, "/lib/modules/6.1.0-18-amd64/kernel/net/netfilter/nf-conntrack.ko"),
        (XFS, "/lib/modules/6.1.0-18-amd64/kernel/fs/xfs/xfs.ko.zst"),
        (FUSE, "[fuse]"),
    ] {
        records.mmap2(0, start, 0x1000, 0, [0xcd; 20], path);
    }
    let entry = TEXT + 0x210;
    records
        .comm(0, 7, 7, "db_bench", false)
        .sample(5, 7, 7, 100, &[KERNEL, EXT4 + 0x48, TEXT + 0x110, entry])
        .sample(6, 7, 7, 20, &[KERNEL, CONNTRACK + 8, entry])
        .sample(7, 7, 7, 3, &[KERNEL, XFS + 0x123, entry])
        .sample(8, 7, 7, 4, &[KERNEL, FUSE + 0x12, entry])
        .round();
    file(&[Event::default()], &records)
}

fn fold(bytes: &[u8], cache: Option<&Files>, options: Options) -> (String, Vec<String>) {
    let cache = cache.map(|files| files.path("").into());
    let (text, stats) = fold_recording(bytes, options, cache).expect("folded");
    (text, stats.notes)
}

/// perf prints `ext4_file_read_iter ([ext4])`: the module's name, whatever its file is called and packed with.
#[test]
fn modules_have_the_names_of_the_kernels_own_list() {
    let cache = cache(KALLSYMS);
    let (text, notes) = fold(&recording(), Some(&cache), Options { kernel: true, ..Options::default() });
    assert_eq!(
        text,
        "db_bench;do_syscall_64_[k];[xfs]_[k] 3\ndb_bench;do_syscall_64_[k];fuse_read_[k] 4\n\
         db_bench;do_syscall_64_[k];nf_hook_[k] 20\n\
         db_bench;do_syscall_64_[k];vfs_read_[k];ext4_file_read_iter_[k] 100\n"
    );
    assert!(notes.is_empty(), "{notes:?}");
    let (text, _) = fold(&recording(), Some(&cache), Options { dso: true, ..Options::default() });
    assert!(text.contains("kernel.kallsyms`vfs_read;ext4`ext4_file_read_iter 100"), "{text}");
    assert!(text.contains("nf_conntrack`nf_hook 20"), "{text}");
}

/// Of a function without a frame pointer the kernel takes any number for where it returns to.
#[test]
fn a_users_frame_is_none_of_the_kernels_whatever_its_address() {
    let mut records = Records::default();
    records.comm(0, 7, 7, "python3", false).mmap(0, 7, 0x40_0000, 0x1000, 0, "/no/python3");
    records.sample(5, 7, 7, 10, &[USER, 0x40_0010, 0xffff_9000_0000_1234]).round();
    records.sample(6, 7, 7, 3, &[KERNEL, 0xffff_9000_0000_1234, USER, 0x40_0010]).round();
    let options = || Options { kernel: true, ..Options::default() };
    let (text, _) = fold(&file(&[Event::default()], &records), None, options());
    assert_eq!(text, "python3;[python3];[unknown]_[k] 3\npython3;[unknown];[python3] 10\n");
    let (text, _) = fold(&file(&[Event::default()], &records), None, Options { addrs: true, ..options() });
    assert!(text.contains("[unknown 0xffff900000001234];[python3"), "{text}");
}

/// Where modules lay in another boot, nobody knows: the kernel moves as a whole, they do not.
#[test]
fn a_list_of_another_boot_names_the_kernel_and_no_module() {
    let moved = KALLSYMS.replace("ffffffff81", "ffffffff91");
    let cache = cache(&moved);
    let (text, _) = fold(&recording(), Some(&cache), Options::default());
    assert!(text.contains("do_syscall_64;vfs_read;[ext4] 100\n"), "{text}");
    assert!(text.contains("do_syscall_64;[nf_conntrack] 20\n"), "{text}");
}

#[test]
fn without_any_list_of_the_kernel_that_was_recorded_objects_stand_for_their_frames() {
    let (text, notes) = fold(&recording(), None, Options::default());
    assert!(text.contains("db_bench;[kernel.kallsyms];[kernel.kallsyms];[ext4] 100\n"), "{text}");
    assert!(text.contains("[nf_conntrack] 20\n") && text.contains("[fuse] 4\n"), "{text}");
    assert!(notes.iter().any(|note| note.starts_with("kernel frames have no names")), "{notes:?}");
}
