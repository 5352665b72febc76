//! The parts of a `Cargo.toml` that decide what a kernel crate is made from.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::BuildError;

/// Dependencies under this key are compiled for the host alone and cannot reach the PTX.
const HOST_ONLY_TARGET: &str = "cfg(not(target_arch = \"nvptx64\"))";

/// A crate's `Cargo.toml`, with the workspace's where there is one.
pub struct Manifest {
    dir: PathBuf,
    table: Table,
    workspace: Option<(PathBuf, Table)>,
}

impl Manifest {
    /// Reads `crate_dir/Cargo.toml` and looks upwards for the workspace's.
    pub fn read(crate_dir: &Path) -> Result<Self, BuildError> {
        let table = parse(crate_dir)?;
        let mut workspace = None;
        for dir in crate_dir.ancestors() {
            if dir.join("Cargo.toml").is_file() {
                let table = parse(dir)?;
                if table.contains_key("workspace") {
                    workspace = Some((dir.to_owned(), table));
                    break;
                }
            }
        }
        Ok(Self {
            dir: crate_dir.to_owned(),
            table,
            workspace,
        })
    }

    /// `package.name`.
    pub fn package_name(&self) -> Result<&str, BuildError> {
        let name = self.package("name").and_then(Value::as_str);
        name.ok_or_else(|| self.error("there is no `package.name`".into()))
    }

    /// The library's name as the compiler knows it.
    pub fn library_name(&self) -> Result<String, BuildError> {
        let library = self.table.get("lib").and_then(|lib| lib.get("name"));
        match library.and_then(Value::as_str) {
            Some(name) => Ok(name.to_owned()),
            None => Ok(self.package_name()?.replace('-', "_")),
        }
    }

    /// The folder of the workspace, or of the crate if it is alone.
    pub fn workspace_dir(&self) -> &Path {
        self.workspace.as_ref().map_or(&self.dir, |(dir, _)| dir)
    }

    /// The paths in `package.metadata.cuda.host-only`.
    pub fn host_only(&self) -> Result<Vec<PathBuf>, BuildError> {
        let declared = self
            .package("metadata")
            .and_then(|metadata| metadata.get("cuda")?.get("host-only"));
        let Some(declared) = declared else {
            return Ok(Vec::new());
        };
        let path = |name: &Value| Some(self.dir.join(name.as_str()?));
        let paths = declared
            .as_array()
            .and_then(|names| names.iter().map(path).collect());
        paths.ok_or_else(|| {
            let given = format!("`package.metadata.cuda.host-only` is {declared:?}");
            self.error(given + "; it must be a list of paths inside the crate")
        })
    }

    /// The folders of the path dependencies that may reach the PTX.
    pub fn path_dependencies(&self) -> Result<Vec<PathBuf>, BuildError> {
        let mut folders = Vec::new();
        for (name, dependency) in self.dependencies() {
            let (base, dependency) = if is_inherited(dependency) {
                (self.workspace_dir(), self.inherit("dependencies", name)?)
            } else {
                (self.dir.as_path(), dependency)
            };
            if let Some(path) = dependency.get("path").and_then(Value::as_str) {
                folders.push(base.join(path));
            }
        }
        Ok(folders)
    }

    /// What the crate takes from the workspace's manifest that may reach the PTX.
    pub fn inherited(&self) -> Result<String, BuildError> {
        let package = ["edition", "version"]
            .into_iter()
            .filter(|key| self.package(key).is_some_and(is_inherited))
            .map(|key| ("package", key));
        let dependencies = self
            .dependencies()
            .filter(|(_, dependency)| is_inherited(dependency))
            .map(|(name, _)| ("dependencies", name));
        let lines = package.chain(dependencies).map(|(section, key)| {
            let value = canonical(self.inherit(section, key)?);
            Ok(format!("{section}.{key} = {value}\n"))
        });
        lines.collect()
    }

    fn package(&self, key: &str) -> Option<&Value> {
        self.table.get("package")?.get(key)
    }

    /// Name and specification of every dependency that may be compiled for the device or run by its build.
    fn dependencies(&self) -> impl Iterator<Item = (&str, &Value)> {
        let targets = self.table.get("target").and_then(Value::as_table);
        let targets = targets.into_iter().flatten();
        let targets = targets.filter(|(target, _)| *target != HOST_ONLY_TARGET);
        let targets = targets.filter_map(|(_, table)| table.as_table());
        [&self.table]
            .into_iter()
            .chain(targets)
            .flat_map(|table| [table.get("dependencies"), table.get("build-dependencies")])
            .filter_map(|section| section?.as_table())
            .flatten()
            .map(|(name, dependency)| (name.as_str(), dependency))
    }

    /// `workspace.section.key` of the workspace's manifest.
    fn inherit(&self, section: &str, key: &str) -> Result<&Value, BuildError> {
        let value = self
            .workspace
            .as_ref()
            .and_then(|(_, table)| table.get("workspace")?.get(section)?.get(key));
        value.ok_or_else(|| {
            self.error(format!(
                "`{section}.{key}` is to be inherited, and the workspace has no such value"
            ))
        })
    }

    fn error(&self, reason: String) -> BuildError {
        BuildError::Manifest {
            path: self.dir.join("Cargo.toml"),
            reason,
        }
    }
}

fn parse(dir: &Path) -> Result<Table, BuildError> {
    let path = dir.join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(BuildError::io(&path))?;
    text.parse()
        .map_err(|error: toml::de::Error| BuildError::Manifest {
            path,
            reason: error.to_string(),
        })
}

fn is_inherited(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

/// `value` as text that does not depend on the order of its keys or on how it was written.
fn canonical(value: &Value) -> String {
    match value {
        Value::Table(table) => {
            let sorted: BTreeMap<_, _> = table.iter().map(|(k, v)| (k, canonical(v))).collect();
            format!("{sorted:?}")
        }
        Value::Array(values) => format!("{:?}", values.iter().map(canonical).collect::<Vec<_>>()),
        scalar => format!("{scalar:?}"),
    }
}
