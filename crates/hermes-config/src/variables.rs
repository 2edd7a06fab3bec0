//! The variables of a home: the process environment, overridden by the home's `.env`, completed by a project's.
//!
//! They serve Hermes itself and `${VAR}`; nothing here reaches a child process by itself.

use crate::private_file::replace_file;
use std::{collections::BTreeMap, env, fmt, fs, io, path::Path, sync::Arc};

use crate::{Home, Warning};

mod dotenv;

/// Names and values. Copies are cheap and `Debug` shows names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables {
    values: Arc<BTreeMap<String, String>>,
}

impl Variables {
    /// Reads the environment and both `.env` files. A file that cannot be read is a warning, not an error.
    pub fn load(home: &Home, project_dir: Option<&Path>) -> (Self, Vec<Warning>) {
        Self::load_with(home, project_dir, [])
    }

    /// The same where an operator gave some: they stand as if this process had been started with them.
    pub fn load_with(
        home: &Home,
        project_dir: Option<&Path>,
        given: impl IntoIterator<Item = (String, String)>,
    ) -> (Self, Vec<Warning>) {
        let mut warnings = Vec::new();
        // Names and values that are not Unicode cannot be written in the configuration either.
        let mut values: BTreeMap<String, String> = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        values.extend(given);
        values.extend(read_env_file(&home.env_file(), &mut warnings));
        if let Some(directory) = project_dir {
            for (name, value) in read_env_file(&directory.join(".env"), &mut warnings) {
                values.entry(name).or_insert(value);
            }
        }
        let values = Arc::new(values);
        (Self { values }, warnings)
    }

    /// These and those in the text of a `.env` file that was read by other means.
    pub fn from_pairs_and_text(
        pairs: impl IntoIterator<Item = (String, String)>,
        text: &str,
    ) -> Self {
        let mut values: BTreeMap<String, String> = pairs.into_iter().collect();
        values.extend(dotenv::parse(text).0);
        Self {
            values: Arc::new(values),
        }
    }

    /// Exactly these, without the process environment.
    pub fn from_pairs<K: Into<String>, V: Into<String>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let values = pairs.into_iter().map(|(k, v)| (k.into(), v.into()));
        Self {
            values: Arc::new(values.collect()),
        }
    }

    /// The value of a variable; it may be empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The same without some.
    #[must_use]
    pub fn without(&self, is_unwanted: impl Fn(&str) -> bool) -> Self {
        Self::from_pairs(self.iter().filter(|(name, _)| !is_unwanted(name)))
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// The assignments of a `.env` file, in order; none if it does not exist.
fn read_env_file(path: &Path, warnings: &mut Vec<Warning>) -> Vec<(String, String)> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            let message = format!("`{}` cannot be read: {error}", path.display());
            warnings.push(Warning { key: None, message });
            return Vec::new();
        }
    };
    let (pairs, bad_lines) = dotenv::parse(&dotenv::decode_text(&bytes));
    for line in bad_lines {
        let message = format!(
            "`{}` line {line} is not `KEY=value` and is ignored",
            path.display()
        );
        warnings.push(Warning { key: None, message });
    }
    pairs
}

/// Sets a variable in the home's `.env`: its line is replaced, or one is added at the end.
///
/// Line breaks are taken out of the value. The home must exist.
pub fn write_variable(home: &Home, key: &str, value: &str) -> io::Result<()> {
    if !dotenv::is_name(key) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{key}` is not a variable name"),
        ));
    }
    edit_env_file(home, |text| dotenv::set_assignment(text, key, value))
}

/// Takes a variable out of the home's `.env`; nothing happens if it is not there.
pub fn remove_variable(home: &Home, key: &str) -> io::Result<()> {
    edit_env_file(home, |text| dotenv::remove_assignment(text, key))
}

fn edit_env_file(home: &Home, change: impl FnOnce(&str) -> String) -> io::Result<()> {
    let path = home.env_file();
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let text = dotenv::decode_text(&bytes);
    let changed = change(&text);
    if changed == text {
        return Ok(());
    }
    replace_file(&path, changed.as_bytes())
}
