//! Which file uses which, with re-exports followed to the file that declares what they name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::source::{self, File, ModulePath};

pub(crate) struct Crate {
    modules: Vec<ModulePath>,
    /// For each file the paths that it uses, each with the file that declares it.
    uses: Vec<BTreeSet<(ModulePath, usize)>>,
}

impl Crate {
    /// The crate in this folder of the repository.
    pub(crate) fn read(folder: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder).join("src/lib.rs");
        Self::of(source::read(&root))
    }

    pub(crate) fn of(files: Vec<File>) -> Self {
        let names = Names::new(&files);
        let uses = files.iter().enumerate().map(|(at, file)| names.uses(file, at)).collect();
        Self { modules: files.into_iter().map(|file| file.module).collect(), uses }
    }

    /// Every use of a file of the crate: by which file, of what, and which file declares that.
    pub(crate) fn uses(&self) -> impl Iterator<Item = (&[String], &[String], &[String])> {
        self.modules
            .iter()
            .zip(&self.uses)
            .flat_map(|(module, uses)| uses.iter().map(|(path, to)| (&module[..], &path[..], &self.modules[*to][..])))
    }

    /// The modules below `at`.
    pub(crate) fn children(&self, at: &[String]) -> BTreeSet<&str> {
        let below = self.modules.iter().filter(|module| module.starts_with(at));
        below.filter_map(|module| module.get(at.len()).map(String::as_str)).collect()
    }

    /// The groups of more than two files that use each other, each with the uses that make it one.
    pub(crate) fn cycles(&self) -> Vec<String> {
        let reach = |from: usize| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(at) = open.pop() {
                open.extend(self.uses[at].iter().map(|(_, to)| *to).filter(|to| seen.insert(*to)));
            }
            seen
        };
        let reached: Vec<BTreeSet<usize>> = (0..self.modules.len()).map(reach).collect();
        let group = |at: usize| -> BTreeSet<usize> {
            reached[at].iter().copied().filter(|other| reached[*other].contains(&at)).collect()
        };
        let groups: BTreeSet<_> = (0..self.modules.len()).map(group).filter(|group| group.len() > 2).collect();
        groups.iter().map(|group| self.described(group)).collect()
    }

    fn described(&self, group: &BTreeSet<usize>) -> String {
        let mut lines = vec![format!("{} files use each other:", group.len())];
        for at in group {
            for (path, _) in self.uses[*at].iter().filter(|(_, to)| group.contains(to)) {
                lines.push(format!("  {} uses {}", self.modules[*at].join("::"), path.join("::")));
            }
        }
        lines.join("\n")
    }
}

/// Finds the file that declares what a path names.
struct Names<'a> {
    files: &'a [File],
    at: BTreeMap<&'a [String], usize>,
}

impl<'a> Names<'a> {
    fn new(files: &'a [File]) -> Self {
        Self { files, at: files.iter().enumerate().map(|(at, file)| (&file.module[..], at)).collect() }
    }

    fn uses(&self, file: &File, own: usize) -> BTreeSet<(ModulePath, usize)> {
        let imported =
            file.imports.iter().filter(|(name, import)| !import.is_export || file.code.words.contains(*name));
        let imported = imported.map(|(_, import)| &import.path).chain(&file.code.paths);
        let named = imported.filter_map(|path| self.absolute(path, file)).map(|path| self.declared(path));
        // What names a module alone uses nothing of it yet.
        let named = named.filter(|path| !self.at.contains_key(&path[..]));
        // What is handed on from elsewhere is used; what is handed on from below is how a folder shows its parts.
        let exports = file
            .imports
            .values()
            .filter(|import| import.is_export)
            .filter_map(|import| self.absolute(&import.path, file));
        let exports = exports.map(|path| self.declared(path)).filter(|path| !path.starts_with(&file.module));
        let globs = file.globs.iter().filter_map(|path| self.absolute(path, file));
        let globs = globs.filter(|path| !path.starts_with(&file.module) || path.len() == file.module.len());
        let all = named.chain(exports).chain(globs);
        all.map(|path| (path.clone(), self.file_of(&path))).filter(|(_, to)| *to != own).collect()
    }

    /// The path from the crate's root; none for what another crate, the file itself or a function declares.
    fn absolute(&self, path: &[String], file: &File) -> Option<ModulePath> {
        let ups = path.iter().take_while(|part| matches!(part.as_str(), "crate" | "self" | "super")).count();
        let base = match path[0].as_str() {
            "crate" => vec![],
            "self" | "super" => {
                let up = path[..ups].iter().filter(|part| *part == "super").count();
                file.module[..file.module.len().saturating_sub(up)].to_vec()
            }
            child if file.children.contains(child) => file.module.clone(),
            name => {
                let import = file.imports.get(name).filter(|import| import.path[0] != name)?;
                self.absolute(&import.path, file)?
            }
        };
        let skipped = if ups > 0 || file.children.contains(&path[0]) { ups } else { 1 };
        Some([&base[..], &path[skipped..]].concat())
    }

    /// The path under which its file declares what `path` names, re-exports followed.
    fn declared(&self, mut path: ModulePath) -> ModulePath {
        for _ in 0..16 {
            let file = &self.files[self.file_of(&path)];
            let Some(name) = path.get(file.module.len()) else { break };
            if file.items.contains(name) {
                break;
            }
            let rest = &path[file.module.len() + 1..];
            let named = file.imports.get(name).and_then(|import| self.absolute(&import.path, file));
            let by_glob = || {
                let modules = file.globs.iter().filter_map(|glob| self.absolute(glob, file));
                let mut having = modules.filter(|module| {
                    let at = self.at.get(&module[..]).map(|at| &self.files[*at]);
                    at.is_some_and(|at| at.items.contains(name) || at.imports.contains_key(name))
                });
                having.next().map(|module| [&module[..], std::slice::from_ref(name)].concat())
            };
            match named.or_else(by_glob) {
                Some(target) => path = [&target[..], rest].concat(),
                None => break,
            }
        }
        path
    }

    /// The file with the longest module path that `path` begins with.
    fn file_of(&self, path: &[String]) -> usize {
        (0..=path.len()).rev().find_map(|length| self.at.get(&path[..length]).copied()).unwrap_or(0)
    }
}
