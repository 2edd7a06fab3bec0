//! What is read on this machine to be sent to a Hub: files, and directories as archives.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// Fast, and much smaller for text.
const COMPRESSION_LEVEL: i32 = 3;

/// The bytes of a file; `-` is stdin.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let read = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(path)
    };
    read.map_err(|error| unreadable(path, &error))
}

/// A file as a member of a document: its text, or its bytes in base64.
pub(crate) fn content_member(bytes: Vec<u8>) -> (String, Value) {
    match String::from_utf8(bytes) {
        Ok(text) => ("content".into(), text.into()),
        Err(error) => (
            "contentBase64".into(),
            BASE64_STANDARD.encode(error.as_bytes()).into(),
        ),
    }
}

/// All files of a directory, each with its path in it, in byte order.
pub(crate) fn list_files(directory: &Path) -> Result<Vec<Value>, Failure> {
    let mut files = Vec::new();
    for (path, bytes) in walk(directory)? {
        let mut file = Map::from_iter([("path".to_owned(), json!(path))]);
        file.extend([content_member(bytes)]);
        files.push(Value::Object(file));
    }
    Ok(files)
}

/// A directory as one `tar.zst`.
pub(crate) fn pack_directory(directory: &Path) -> Result<Vec<u8>, Failure> {
    let files = walk(directory)?;
    let pack = || -> io::Result<Vec<u8>> {
        let encoder = zstd::Encoder::new(Vec::new(), COMPRESSION_LEVEL)?;
        let mut builder = tar::Builder::new(encoder);
        for (path, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, &*bytes)?;
        }
        builder.into_inner()?.finish()
    };
    pack().map_err(|error| unreadable(directory, &error))
}

/// The files below a directory. Links are refused: they may lead anywhere.
fn walk(directory: &Path) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut files = Vec::new();
    let mut ahead = vec![directory.to_owned()];
    while let Some(path) = ahead.pop() {
        let entries = fs::read_dir(&path).map_err(|error| unreadable(&path, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&path, &error))?;
            let path = entry.path();
            let kind = entry
                .file_type()
                .map_err(|error| unreadable(&path, &error))?;
            if kind.is_dir() {
                ahead.push(path);
            } else if kind.is_file() {
                let below = path.strip_prefix(directory).unwrap_or(&path);
                let Some(name) = below.to_str() else {
                    return Err(Failure::usage(format!(
                        "the name of `{}` is not UTF-8",
                        path.display()
                    )));
                };
                files.push((name.to_owned(), read_bytes(&path)?));
            } else {
                return Err(Failure::usage(format!(
                    "`{}` is a link or no file, which is not sent",
                    path.display()
                ))
                .hint("put a copy of what it names in its place"));
            }
        }
    }
    files.sort();
    Ok(files)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("`{}` cannot be read: {error}", path.display()))
}
