//! The rules file. `README.md` describes the format; `workloads/engines/rocksdb/categories.toml` is the model.

use super::rule_files::rule_files;
use crate::error::Error;
use crate::names::ComparableName;
use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Rules that are part of the program, by the engine's name; the build script lists them.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/category_rules.rs"));

/// Rows that any rules have with `system = true`, and patterns that they may name.
const SYSTEM: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/engines/system.toml"));

/// The name of the row for what no category took.
pub const OTHER: &str = "other";

/// A frame is tried against all entries of a view at once, one bit each.
const MOST_ENTRIES: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    schema: u32,
    engine: String,
    checked: Vec<String>,
    #[serde(default)]
    engine_frames: Vec<String>,
    /// Lists of patterns that entries name as `$NAME`.
    #[serde(default)]
    patterns: BTreeMap<String, Vec<String>>,
    view: BTreeMap<String, ViewFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewFile {
    description: String,
    walk: WalkFrom,
    /// The rows of the kernel and of the libraries of all programs follow.
    #[serde(default)]
    system: bool,
    category: Vec<CategoryFile>,
}

/// `workloads/engines/system.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SystemFile {
    patterns: BTreeMap<String, Vec<String>>,
    category: Vec<CategoryFile>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CategoryFile {
    name: String,
    /// Of the row: that of its first entry.
    #[serde(default)]
    label: String,
    #[serde(default)]
    anchors: Vec<String>,
    #[serde(default)]
    under: Vec<String>,
    #[serde(default)]
    not_under: Vec<String>,
    #[serde(default)]
    kernel: bool,
    #[serde(default)]
    anywhere: bool,
    #[serde(default)]
    threads: Vec<String>,
    #[serde(default)]
    rest: bool,
    #[serde(default)]
    without: Vec<String>,
}

/// From which end the first anchor wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WalkFrom {
    Root,
    Leaf,
}

/// Checked rules.
pub struct Rules {
    pub engine: String,
    pub checked: Vec<String>,
    pub engine_frames: Patterns,
    views: BTreeMap<String, View>,
}

/// One way to sort stacks.
pub struct View {
    pub description: String,
    pub walk: WalkFrom,
    /// Names and labels of the rows; `other` is the last.
    pub rows: Vec<(String, String)>,
    pub entries: Vec<CategoryRule>,
}

/// One entry of a view; entries of the same name share a row.
pub struct CategoryRule {
    pub row: usize,
    pub anchors: Patterns,
    pub under: Patterns,
    pub not_under: Patterns,
    /// Only frames marked `_[k]`, in profiles that have such marks.
    pub kernel: bool,
    /// Tried before the walk, against every frame.
    pub anywhere: bool,
    /// Commands whose stacks are all of this category, before anything else.
    pub threads: Patterns,
    /// Tried after the walk, on what no other entry took, against every frame.
    pub rest: bool,
    /// Of a `rest`: no frame of the stack may be one of these.
    pub without: Patterns,
}

/// Regular expressions over whole names.
#[derive(Default)]
pub struct Patterns(Vec<Pattern>);

struct Pattern {
    regex: Regex,
    with_templates: bool,
}

impl Patterns {
    /// A pattern covers a name from the start of one of its scopes to its end; what a function holds
    /// (`f(int)::{lambda()#1}`) belongs to it. Template arguments take part only if the pattern has some.
    fn new(patterns: &[String]) -> Result<Self, String> {
        let compile = |pattern: &String| {
            let regex = RegexBuilder::new(&format!(r"^(?:.*::)?(?:{pattern})(?:\(.*)?(?:::.*)?$"))
                .unicode(false)
                .dot_matches_new_line(true)
                .build()
                .map_err(|error| format!("'{pattern}' is no regular expression: {error}"))?;
            Ok(Pattern { regex, with_templates: pattern.contains('<') })
        };
        patterns.iter().map(compile).collect::<Result<_, String>>().map(Self)
    }

    /// `$NAME` stands for the patterns of that name, which may name others in turn.
    fn with_named(patterns: &[String], named: &BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        let mut all = Vec::new();
        let mut left: Vec<(&str, usize)> = patterns.iter().map(|pattern| (pattern.as_str(), 0)).collect();
        while let Some((pattern, depth)) = left.pop() {
            let Some(name) = pattern.strip_prefix('$') else {
                all.push(pattern.to_owned());
                continue;
            };
            let list = named.get(name).ok_or_else(|| format!("there are no patterns called '{name}'"))?;
            if depth == named.len() {
                return Err(format!("the patterns called '{name}' name themselves"));
            }
            left.extend(list.iter().map(|pattern| (pattern.as_str(), depth + 1)));
        }
        Self::new(&all)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn matches(&self, name: &ComparableName) -> bool {
        self.0.iter().any(|pattern| {
            pattern.regex.is_match(if pattern.with_templates { &name.full } else { &name.path })
        })
    }
}

impl Rules {
    /// Rules of the program by name, or of a file; `NAME.VIEW.toml` beside `NAME.toml` are further views of it.
    pub fn load(name: &str) -> Result<Self, Error> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(text).map_err(|why| Error::usage(format!("rules {name}: {why}")));
        }
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| {
                let known: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
                let path = path.display();
                Error::usage(format!("cannot read rules {path}: {error}; built in are: {}", known.join(", ")))
            })
        };
        let files = rule_files(Path::new(name));
        let texts: Vec<String> = files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        Self::parse(&texts.join("\n")).map_err(|why| {
            let files: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
            Error::usage(format!("rules {}: {why}", files.join(" and ")))
        })
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let file: RulesFile = toml::from_str(text).map_err(|error| error.to_string())?;
        if file.schema != 1 {
            return Err(format!("schema {} is not known; this program reads schema 1", file.schema));
        }
        let system: SystemFile = toml::from_str(SYSTEM).map_err(|error| format!("system.toml: {error}"))?;
        let mut patterns = system.patterns;
        patterns.extend(file.patterns);
        let view = |(name, mut view): (String, ViewFile)| {
            if view.system {
                view.category.extend_from_slice(&system.category);
            }
            let view = View::new(view, &patterns).map_err(|why| format!("view {name}: {why}"))?;
            Ok((name, view))
        };
        Ok(Self {
            engine: file.engine,
            checked: file.checked,
            engine_frames: Patterns::new(&file.engine_frames)?,
            views: file.view.into_iter().map(view).collect::<Result<_, String>>()?,
        })
    }

    pub fn leave_out(&mut self, views: &[String]) {
        self.views.retain(|name, _| !views.contains(name));
    }

    /// In the order of the alphabet.
    pub fn view_names(&self) -> impl Iterator<Item = &str> {
        self.views.keys().map(String::as_str)
    }

    pub fn view(&self, name: &str) -> Result<&View, Error> {
        self.views.get(name).ok_or_else(|| {
            let known: Vec<_> = self.view_names().collect();
            Error::usage(format!(
                "rules {} have no view '{name}'; they have: {}",
                self.engine,
                known.join(", ")
            ))
        })
    }
}

impl View {
    fn new(file: ViewFile, named: &BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        if file.category.len() > MOST_ENTRIES {
            return Err(format!("{} categories; {MOST_ENTRIES} are the most", file.category.len()));
        }
        let mut rows: Vec<(String, String)> = Vec::new();
        let mut entries = Vec::new();
        for entry in file.category {
            if entry.name == OTHER || entry.name.contains(['\t', '\n']) {
                return Err(format!("a category cannot be called {:?}", entry.name));
            }
            if entry.anchors.is_empty() && entry.threads.is_empty() {
                return Err(format!("category {} has no anchors, and no threads", entry.name));
            }
            if !entry.without.is_empty() && !entry.rest {
                return Err(format!("category {}: `without` is for one with `rest = true`", entry.name));
            }
            let at = |why| format!("category {}: {why}", entry.name);
            let known = rows.iter().position(|(name, _)| *name == entry.name);
            let row = known.unwrap_or_else(|| {
                rows.push((entry.name.clone(), entry.label.clone()));
                rows.len() - 1
            });
            entries.push(CategoryRule {
                row,
                anchors: Patterns::with_named(&entry.anchors, named).map_err(at)?,
                under: Patterns::with_named(&entry.under, named).map_err(at)?,
                not_under: Patterns::with_named(&entry.not_under, named).map_err(at)?,
                kernel: entry.kernel,
                anywhere: entry.anywhere,
                threads: Patterns::with_named(&entry.threads, named).map_err(at)?,
                rest: entry.rest,
                without: Patterns::with_named(&entry.without, named).map_err(at)?,
            });
        }
        rows.push((OTHER.to_owned(), "code outside the categories".to_owned()));
        Ok(Self { description: file.description, walk: file.walk, rows, entries })
    }

    /// The row of what no category took.
    pub fn other(&self) -> usize {
        self.rows.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::bare;

    fn matches(pattern: &str, name: &str) -> bool {
        Patterns::new(&[pattern.to_owned()]).expect("a regular expression").matches(&bare(name.as_bytes()))
    }

    #[test]
    fn patterns_cover_whole_names_from_any_scope() {
        assert!(matches("DBImpl::Get", "rocksdb::DBImpl::Get(rocksdb::ReadOptions const&)"));
        assert!(matches("DBImpl::Get", "my_rocksdb::DBImpl::Get.isra.0"));
        assert!(matches("DBImpl::Get", "rocksdb::DBImpl::Get(int)::{lambda(int)#1}::operator()(int) const"));
        assert!(!matches("DBImpl::Get", "rocksdb::DBImpl::GetImpl"));
        assert!(!matches("DBImpl::Get", "rocksdb::XDBImpl::Get"));
        assert!(matches("FindFileInRange", "rocksdb::(anonymous namespace)::FindFileInRange"));
        assert!(matches("ext4_\\w*", "ext4_map_blocks.part.0_[k]"));
        assert!(!matches("ext4_\\w*", "__ext4_x"));
    }

    #[test]
    fn template_arguments_take_part_when_the_pattern_has_some() {
        let name = "bool rocksdb::BlockIter<rocksdb::IndexValue>::BinarySeek<rocksdb::DecodeKey>(int)";
        assert!(matches("BlockIter::BinarySeek", name));
        assert!(matches("BlockIter<rocksdb::IndexValue>::BinarySeek<?.*", name));
        assert!(!matches("BlockIter<rocksdb::Slice>::BinarySeek<?.*", name));
        assert!(!matches("DecodeKey", name));
    }

    #[test]
    fn entries_share_named_patterns_and_the_label_of_their_row() {
        let rules = Rules::parse(
            "schema = 1\nengine = 'e'\nchecked = []\n[view.v]\ndescription = ''\nwalk = 'root'\n\
             [[view.v.category]]\nname = 'a'\nlabel = 'l'\nanchors = ['x', '$heap']\n\
             [[view.v.category]]\nname = 'a'\nanchors = ['y']\n[patterns]\nheap = ['malloc', 'free']",
        );
        let rules = rules.expect("rules parse");
        let view = rules.view("v").map_err(|error| error.to_string()).expect("the view is there");
        assert_eq!(view.rows[0], ("a".to_owned(), "l".to_owned()));
        assert!(
            ["x", "malloc", "free"]
                .iter()
                .all(|name| view.entries[0].anchors.matches(&bare(name.as_bytes())))
        );
        assert!(!view.entries[1].anchors.matches(&bare(b"free")));
    }

    #[test]
    fn rows_of_the_system_follow_a_views_own() {
        let head = "schema = 1\nengine = 'e'\nchecked = []\n[view.v]\ndescription = ''\nwalk = 'leaf'\n";
        let rules = Rules::parse(&format!(
            "{head}system = true\n[[view.v.category]]\nname = 'heap'\nanchors = ['$own']\n\
             [[view.v.category]]\nname = 'copy'\nlabel = 'own'\nanchors = ['copy_block']\n\
             [patterns]\nown = ['$allocator', 'Arena::.*']"
        ));
        let rules = rules.expect("rules parse");
        let view = rules.view("v").map_err(|error| error.to_string()).expect("the view is there");
        // One list may name another, and the rows of one name are one.
        for name in [&b"je_malloc"[..], b"rocksdb::Arena::Allocate(unsigned long)", b"mi_heap_malloc"] {
            assert!(view.entries[0].anchors.matches(&bare(name)), "{}", String::from_utf8_lossy(name));
        }
        let of_copy: Vec<_> = view.entries.iter().filter(|entry| view.rows[entry.row].0 == "copy").collect();
        assert_eq!((of_copy.len(), view.rows[1].1.as_str()), (2, "own"));
        assert!(of_copy[1].anchors.matches(&bare(b"__memmove_avx_unaligned_erms")));
        assert!(view.rows.iter().any(|(name, _)| name == "k:block"));
    }

    #[test]
    fn built_in_rules_are_right() {
        for (name, _) in BUILT_IN {
            let rules = Rules::load(name).map_err(|error| error.to_string()).expect("built-in rules parse");
            assert_eq!(rules.engine, *name);
            assert!(!rules.checked.is_empty());
            for view in ["owner", "leaf"] {
                assert!(rules.view(view).is_ok(), "{name} {view}");
            }
        }
    }

    #[test]
    fn mistakes_are_named() {
        let why = |text: &str| Rules::parse(text).err().unwrap_or_default();
        let head = "schema = 1\nengine = 'e'\nchecked = []\n[view.v]\ndescription = ''\nwalk = 'root'\n";
        let entry = |body: &str| why(&format!("{head}[[view.v.category]]\nname = 'a'\nlabel = ''\n{body}"));
        assert_eq!(entry("anchors = ['x']"), "");
        assert!(entry("anchors = ['(']").contains("category a: '(' is no regular expression"));
        assert!(entry("anchors = []").contains("category a has no anchors"));
        assert!(entry("anchors = ['x']\nunderr = []").contains("underr"));
        assert!(entry("anchors = ['$x']").contains("category a: there are no patterns called 'x'"));
        assert!(entry("anchors = ['$x']\n[patterns]\nx = ['$x']").contains("'x' name themselves"));
        assert!(why(&head.replace("schema = 1", "schema = 2")).contains("missing field"));
        assert!(
            why(&format!("{head}[[view.v.category]]\nname = 'other'\nlabel = ''\nanchors = ['x']"))
                .contains("\"other\"")
        );
        assert!(why("schema = 2\nengine = 'e'\nchecked = []\nview = {}").contains("schema 2"));
    }
}
