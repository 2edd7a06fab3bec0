//! Crafted archives: valid, but not backups of a Hub.

use std::{io, path::Path};

use hermes_hub::storage::backup::{BackupError, KeyInBackup, restore_backup};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::BackupFixture;

enum AddedEntry<'a> {
    File(&'a str),
    Link(&'a str),
    Directory,
}

/// Adds an entry to the archive and its manifest.
fn add_to_archive(bytes: &[u8], path: &str, added: &AddedEntry<'_>) -> Vec<u8> {
    let plain = zstd::decode_all(bytes).unwrap();
    let mut archive = tar::Archive::new(plain.as_slice());
    let mut made = tar::Builder::new(Vec::new());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().into_owned();
        let mut header = entry.header().clone();
        if name == Path::new("manifest.json") {
            let mut manifest: Value = serde_json::from_reader(&mut entry).unwrap();
            let listed = append_entry(&mut made, path, added);
            manifest["files"].as_array_mut().unwrap().push(listed);
            let text = manifest.to_string();
            header.set_size(text.len() as u64);
            made.append_data(&mut header, name, text.as_bytes())
                .unwrap();
        } else if header.entry_type().is_symlink() {
            let target = entry.link_name().unwrap().unwrap().into_owned();
            made.append_link(&mut header, name, target).unwrap();
        } else {
            made.append_data(&mut header, name, &mut entry).unwrap();
        }
    }
    zstd::encode_all(made.into_inner().unwrap().as_slice(), 1).unwrap()
}

fn append_entry(made: &mut tar::Builder<Vec<u8>>, path: &str, added: &AddedEntry<'_>) -> Value {
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o600);
    header.set_size(0);
    match added {
        AddedEntry::File(text) => {
            header.set_size(text.len() as u64);
            made.append_data(&mut header, path, text.as_bytes())
                .unwrap();
            let hash = Sha256::digest(text.as_bytes());
            json!({"path": path, "type": "file", "size": text.len(), "mode": 0o600,
                "sha256": hermes_config::to_hex(&hash)})
        }
        AddedEntry::Link(target) => {
            header.set_entry_type(tar::EntryType::Symlink);
            made.append_link(&mut header, path, target).unwrap();
            json!({"path": path, "type": "symlink", "target": target})
        }
        AddedEntry::Directory => {
            header.set_entry_type(tar::EntryType::Directory);
            made.append_data(&mut header, path, io::empty()).unwrap();
            json!({"path": path, "type": "dir"})
        }
    }
}

#[tokio::test]
async fn only_known_names_and_no_links_are_at_the_top_of_an_archive() {
    let hub = BackupFixture::new().await;
    hub.tenant("a").await;
    let bytes = hub.backup(KeyInBackup::Without).await;
    let target = hub.target("restored");
    for (path, added) in [
        (".bashrc", AddedEntry::File("echo")),
        ("hub.db-wal", AddedEntry::File("x")),
        ("other/file", AddedEntry::File("x")),
        ("logs", AddedEntry::Link("/tmp")),
        ("internal", AddedEntry::Directory),
        ("hub.yaml", AddedEntry::Link("/etc/passwd")),
        ("hub.yaml", AddedEntry::Directory),
        ("secret.key", AddedEntry::Link("/etc/passwd")),
        ("tenants/b", AddedEntry::Link("/")),
        ("tenants/b/home", AddedEntry::Link("/")),
        ("shares/others", AddedEntry::Link("../tenants/a/home")),
    ] {
        let foreign = add_to_archive(&bytes, path, &added);
        let refused = restore_backup(io::Cursor::new(foreign), &target).await;
        let Err(BackupError::Damaged(reason)) = refused else {
            panic!("`{path}` was restored: {refused:?}");
        };
        assert!(
            reason.contains(path) && reason.contains("belong"),
            "{reason}"
        );
        let left = std::fs::read_dir(&target).map_or(0, Iterator::count);
        assert_eq!(left, 0, "`{path}` left something");
    }
    // Links in homes are allowed.
    let own = add_to_archive(&bytes, "tenants/a/home/link", &AddedEntry::Link("SOUL.md"));
    restore_backup(io::Cursor::new(own), &target).await.unwrap();
}

#[tokio::test]
async fn commands_in_restored_files_are_listed() {
    let hub = BackupFixture::new().await;
    hub.tenant("a").await;
    let bytes = hub.backup(KeyInBackup::Without).await;
    let text = "public_url: ${cmd:touch /tmp/restored; echo http://a}\n";
    let bytes = add_to_archive(&bytes, "hub.yaml", &AddedEntry::File(text));
    let text = "model: ${cmd:id}\n";
    let bytes = add_to_archive(
        &bytes,
        "tenants/a/home/config.yaml",
        &AddedEntry::File(text),
    );
    let restored = restore_backup(io::Cursor::new(bytes), &hub.target("restored")).await;
    let commands = restored.unwrap().commands;
    let commands: Vec<_> = commands
        .iter()
        .map(|found| (found.file.as_str(), found.command.as_str()))
        .collect();
    assert_eq!(
        commands,
        [
            ("hub.yaml", "touch /tmp/restored; echo http://a"),
            ("tenants/a/home/config.yaml", "id"),
        ]
    );
}
