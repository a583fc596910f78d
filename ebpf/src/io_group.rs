//! The control group whose IO limits a process has, as the kernel numbers it (cgroups(7)).

use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::Path;

/// The id of the group, which is the inode of its directory; None for the root, which has no limits, and where the
/// controller is not mounted.
pub fn io_group(pid: u32) -> Option<u64> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (version, path) = group_for_io(&groups)?;
    let places = mounts.lines().filter_map(|line| mounted(line, version, path));
    places.filter_map(|place| fs::metadata(place).ok()).map(|found| found.st_ino()).next()
}

/// The type of the file system that the controller is mounted as, and the group's path: version 1 where blkio is a
/// hierarchy of its own.
fn group_for_io(groups: &str) -> Option<(&'static str, &str)> {
    let of = |wanted: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            fields.next().filter(|controllers| wanted(controllers)).and(fields.next())
        })
    };
    let found = of(&|controllers| controllers.split(',').any(|one| one == "blkio"))
        .map(|path| ("cgroup", path))
        .or_else(|| of(&str::is_empty).map(|path| ("cgroup2", path)));
    found.filter(|(_, path)| *path != "/")
}

/// Where a mount of this type shows the group; a line of mountinfo.
fn mounted(line: &str, version: &str, path: &str) -> Option<String> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let is_of_io = kind.next()? == version
        && (version == "cgroup2" || kind.nth(1)?.split(',').any(|option| option == "blkio"));
    let mut fields = mount.split(' ').skip(3);
    let (root, place) = (fields.next()?, fields.next()?);
    let below = Path::new(path).strip_prefix(root).ok()?;
    is_of_io.then(|| format!("{place}/{}", below.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_that_limits_io_is_chosen() {
        let both = "7:blkio:/a\n2:cpu,cpuacct:/b\n0::/c\n";
        assert_eq!(group_for_io(both), Some(("cgroup", "/a")));
        assert_eq!(
            group_for_io("0::/system.slice/x.service\n"),
            Some(("cgroup2", "/system.slice/x.service"))
        );
        assert_eq!(group_for_io("7:blkio:/\n0::/c\n"), None);
        assert_eq!(group_for_io(""), None);
    }

    #[test]
    fn a_group_is_below_the_mount_that_shows_it() {
        let one = "30 24 0:25 /outer /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw";
        assert_eq!(mounted(one, "cgroup2", "/outer/x").as_deref(), Some("/sys/fs/cgroup/x"));
        assert_eq!(mounted(one, "cgroup2", "/other/x"), None);
        let old = "31 24 0:26 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio";
        assert_eq!(mounted(old, "cgroup", "/x").as_deref(), Some("/sys/fs/cgroup/blkio/x"));
        assert_eq!(mounted(&old.replace("blkio", "cpu"), "cgroup", "/x"), None);
    }
}
