//! Files of a gigabyte: whatever one looks at, only the beginning is read.

use std::{fs, io::Write, path::Path};

use reqwest::{Method, header};

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

const FILES: &str = "/tenants/tenant_123/files?path=";
const SHARE: &str = "/groups/division1/files?tenant=tenant_123&path=";
const GIGABYTE: u64 = 1 << 30;

/// A file that begins with this, and then has a hole: nothing is on the disk, but whoever reads all of it reads a gigabyte.
fn make_huge(path: &Path, start: &[u8]) {
    let mut file = fs::File::create(path).unwrap();
    file.write_all(start).unwrap();
    file.set_len(GIGABYTE).unwrap();
}

/// A line of a file about this process, which has this test alone.
fn counter(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/{file}")).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let mut words = value.unwrap().trim_start_matches(':').split_whitespace();
    words.next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn only_the_beginning_of_a_file_of_a_gigabyte_is_read_or_kept() {
    let hub = TestHub::new().await.with_examples().await;
    let is_on_disk = hub.database().is_none();
    let workspace = hub.home("tenant_123").join("workspace");
    fs::create_dir_all(&workspace).unwrap();
    let share = hub.directory.path().join("hub/shares/division1");
    let text = "line\n".repeat(80_000);
    for (name, start) in [
        ("huge.log", text.as_bytes()),
        ("huge.png", b"\x89PNG\r\n\x1a\n0123456789"),
        ("huge.bin", b"\0"),
    ] {
        make_huge(&workspace.join(name), start);
        if is_on_disk {
            make_huge(&share.join(name), start);
        }
    }
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let read_before = counter("io", "rchar");
    let kept_before = counter("status", "VmRSS");
    let trees: &[&str] = if is_on_disk {
        &[FILES, SHARE]
    } else {
        &[FILES]
    };
    for tree in trees {
        for name in ["huge.log", "huge.png", "huge.bin"] {
            // What is not shown whole is not edited.
            for edit in ["", "&edit=1"] {
                let page = admin.get(&format!("{tree}{name}{edit}")).await;
                let page = page.expect_status(200);
                assert!(page.text.len() < 400 * 1024, "{}", page.text.len());
                page.assert_shows("1 GiB");
                assert!(!page.links().iter().any(|link| link.contains("edit=")));
                page.assert_lacks("<textarea");
                page.assert_lacks("<img class=\"file\"");
                let is_text = name == "huge.log";
                let said = page.shows("These are the first 256 KiB");
                assert_eq!(said, is_text, "{name}");
            }
            // A download that is broken off.
            let raw = format!("{tree}{name}").replace("files?", "files/raw?");
            let mut download = admin.request(Method::GET, &raw).send().await.unwrap();
            assert_eq!(download.status(), 200);
            assert_eq!(download.headers()[header::CONTENT_LENGTH], "1073741824");
            assert!(download.chunk().await.unwrap().is_some());
        }
        // The list of what is there, which says how large it is.
        let folder = tree.trim_end_matches("path=");
        admin.get(folder).await.expect_status(200);
    }
    let read = counter("io", "rchar") - read_before;
    assert!(read < GIGABYTE / 8, "{read} bytes were read");
    let kept = counter("status", "VmHWM").saturating_sub(kept_before) * 1024;
    assert!(kept < GIGABYTE / 4, "{kept} bytes were kept");
}
