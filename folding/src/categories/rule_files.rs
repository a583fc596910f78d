/// A file of rules, and its further views beside it: `NAME.VIEW.toml` of `NAME.toml`, in the order of their names.
/// Build scripts include this file.
pub fn rule_files(main: &std::path::Path) -> Vec<std::path::PathBuf> {
    let stem = main.file_stem().unwrap_or_default().to_string_lossy();
    let folder = main.parent().filter(|folder| !folder.as_os_str().is_empty());
    let beside = std::fs::read_dir(folder.unwrap_or(std::path::Path::new(".")));
    let further = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let view = name.strip_prefix(&*stem).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".toml"));
        view.is_some_and(|view| !view.is_empty() && !view.contains('.'))
    };
    let mut found: Vec<_> =
        beside.into_iter().flatten().flatten().map(|entry| entry.path()).filter(further).collect();
    found.sort();
    found.insert(0, main.to_owned());
    found
}
