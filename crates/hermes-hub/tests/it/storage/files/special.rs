//! Links, pipes, sockets, devices and unusual names.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    time::Duration,
};

use hermes_hub::storage::files::{
    EntryType, Files, FindQuery, GrepQuery, LineRange, RemoveMode, SharePath,
};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use tokio_util::sync::CancellationToken;

use crate::storage::files::fixture::{OUTSIDE_SECRET, ShareFixture, path, problem_status};

/// Opening a pipe without a peer would block forever.
async fn within_timeout<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), work)
        .await
        .expect("this should not wait for anybody")
}

async fn names(scene: &ShareFixture) -> Vec<String> {
    let listing = scene.files.list(&SharePath::root()).await.unwrap();
    listing
        .entries
        .into_iter()
        .map(|entry| entry.name)
        .collect()
}

#[tokio::test]
async fn links_are_shown_without_their_target_and_read_only_within_the_share() {
    let scene = ShareFixture::new();
    scene.put("dir/file", "inside");
    symlink("dir/file", scene.on_disk("in")).unwrap();
    symlink("dir", scene.on_disk("indir")).unwrap();
    symlink("../outside/secret", scene.on_disk("out")).unwrap();
    symlink(scene.outside(), scene.on_disk("outdir")).unwrap();
    symlink("loop", scene.on_disk("loop")).unwrap();
    symlink("/proc/self/root", scene.on_disk("magic")).unwrap();

    let listing = scene.files.list(&SharePath::root()).await.unwrap();
    let links: Vec<_> = listing
        .entries
        .iter()
        .filter(|entry| entry.entry_type == EntryType::Symlink)
        .collect();
    assert_eq!(links.len(), 6);
    assert!(
        links
            .iter()
            .all(|link| link.size == 0 && link.etag.is_none())
    );
    assert_eq!(
        scene.files.stat(&path("out")).await.unwrap().entry_type,
        EntryType::Symlink
    );

    let all = LineRange::default();
    assert_eq!(
        scene.files.read(&path("in"), all).await.unwrap().content,
        "inside"
    );
    assert_eq!(
        scene
            .files
            .read(&path("indir/file"), all)
            .await
            .unwrap()
            .content,
        "inside"
    );
    assert_eq!(
        scene
            .files
            .list(&path("indir"))
            .await
            .unwrap()
            .entries
            .len(),
        1
    );
    for out in ["out", "outdir/secret", "loop", "magic/etc/hostname"] {
        assert_eq!(
            problem_status(scene.files.read(&path(out), all).await),
            409,
            "{out}"
        );
    }
    assert_eq!(problem_status(scene.files.list(&path("outdir")).await), 409);
    assert_eq!(
        problem_status(scene.files.stat(&path("outdir/secret")).await),
        409
    );
}

#[tokio::test]
async fn links_are_never_written_through_moved_or_walked() {
    let scene = ShareFixture::new();
    scene.put("dir/file", "inside");
    symlink("dir/file", scene.on_disk("in")).unwrap();
    symlink("dir", scene.on_disk("indir")).unwrap();
    symlink("../outside/secret", scene.on_disk("out")).unwrap();
    symlink("../outside", scene.on_disk("outdir")).unwrap();
    for link in [
        "in",
        "out",
        "indir",
        "outdir",
        "indir/file",
        "indir/new",
        "outdir/secret",
        "outdir/new",
    ] {
        assert_eq!(problem_status(scene.write(link, "x").await), 409, "{link}");
        assert_eq!(problem_status(scene.append(link, "x").await), 409, "{link}");
    }
    for link in ["indir/new", "outdir/new", "out"] {
        assert_eq!(
            problem_status(scene.files.make_dir(&path(link)).await),
            409,
            "{link}"
        );
    }
    assert_eq!(
        problem_status(scene.files.relocate(&path("out"), &path("b"), None).await),
        409
    );
    assert_eq!(
        problem_status(
            scene
                .files
                .relocate(&path("dir/file"), &path("outdir/b"), None)
                .await
        ),
        409
    );
    assert_eq!(
        problem_status(
            scene
                .files
                .relocate(&path("outdir/secret"), &path("b"), None)
                .await
        ),
        409
    );
    assert_eq!(
        problem_status(
            scene
                .files
                .remove(&path("outdir/secret"), RemoveMode::Single, None)
                .await
        ),
        409
    );
    let everything = GrepQuery {
        pattern: ".".into(),
        ..GrepQuery::default()
    };
    let found = scene
        .files
        .grep(everything, CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(found.matches.len(), 1, "{found:?}");
    let found = scene
        .files
        .find(FindQuery::default(), CancellationToken::new())
        .await
        .unwrap();
    assert!(
        found
            .paths
            .iter()
            .all(|entry| !entry.path.starts_with("outdir/") && !entry.path.starts_with("indir/"))
    );
    scene.assert_outside_is_untouched();
    assert_eq!(
        fs::read_to_string(scene.on_disk("dir/file")).unwrap(),
        "inside"
    );
}

#[tokio::test]
async fn removing_a_link_leaves_what_it_leads_to() {
    let scene = ShareFixture::new();
    scene.put("dir/file", "inside");
    symlink("../outside/secret", scene.on_disk("out")).unwrap();
    symlink("../outside", scene.on_disk("outdir")).unwrap();
    symlink("nowhere", scene.on_disk("dir/dangling")).unwrap();
    symlink("../../outside", scene.on_disk("dir/deep")).unwrap();
    for link in ["out", "outdir"] {
        scene
            .files
            .remove(&path(link), RemoveMode::Recursive, None)
            .await
            .unwrap();
    }
    scene
        .files
        .remove(&path("dir"), RemoveMode::Recursive, None)
        .await
        .unwrap();
    assert_eq!(names(&scene).await, [""; 0]);
    scene.assert_outside_is_untouched();
}

#[tokio::test]
async fn pipes_sockets_and_devices_are_left_alone() {
    let scene = ShareFixture::new();
    mknodat(CWD, scene.on_disk("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(scene.on_disk("socket")).unwrap();
    let mut special = vec!["pipe", "socket"];
    // Only root makes devices.
    let zero = makedev(1, 5);
    if mknodat(
        CWD,
        scene.on_disk("zero"),
        FileType::CharacterDevice,
        Mode::RWXU,
        zero,
    )
    .is_ok()
    {
        special.push("zero");
    }
    for name in special {
        let at = path(name);
        let read = scene.files.read(&at, LineRange::default());
        assert_eq!(problem_status(within_timeout(read).await), 409, "{name}");
        assert_eq!(
            problem_status(within_timeout(scene.files.stat(&at)).await),
            409,
            "{name}"
        );
        assert_eq!(
            problem_status(within_timeout(scene.write(name, "x")).await),
            409,
            "{name}"
        );
        assert_eq!(
            problem_status(within_timeout(scene.append(name, "x")).await),
            409,
            "{name}"
        );
        assert_eq!(
            problem_status(within_timeout(scene.files.relocate(&at, &path("moved"), None)).await),
            409,
            "{name}"
        );
        assert_eq!(
            problem_status(within_timeout(scene.files.remove(&at, RemoveMode::Single, None)).await),
            409,
            "{name}"
        );
    }
    assert_eq!(names(&scene).await, [""; 0]);
    let search = GrepQuery {
        pattern: "x".into(),
        ..GrepQuery::default()
    };
    let found = within_timeout(scene.files.grep(search, CancellationToken::new()))
        .await
        .unwrap();
    assert_eq!((found.files_searched, found.truncated), (0, false));
}

#[tokio::test]
async fn a_file_with_a_second_name_is_read_but_not_written() {
    let scene = ShareFixture::new();
    fs::hard_link(scene.outside().join("secret"), scene.on_disk("a")).unwrap();
    assert_eq!(problem_status(scene.write("a", "x").await), 409);
    assert_eq!(problem_status(scene.append("a", "x").await), 409);
    let problem = scene.append("a", "x").await.unwrap_err();
    assert_eq!(problem.reason, Some("hard_link"));
    scene.assert_outside_is_untouched();
    let text = scene
        .files
        .read(&path("a"), LineRange::default())
        .await
        .unwrap();
    assert_eq!(text.content, OUTSIDE_SECRET);
    scene
        .files
        .remove(&path("a"), RemoveMode::Single, None)
        .await
        .unwrap();
    scene.assert_outside_is_untouched();
}

#[tokio::test]
async fn names_that_no_path_can_say_are_not_shown_but_go_with_their_directory() {
    let scene = ShareFixture::new();
    fs::create_dir(scene.on_disk("dir")).unwrap();
    let odd: [&[u8]; 7] = [
        b"a\nb",
        b"\x1b[31m",
        "a\u{202e}cod.exe".as_bytes(),
        "zero\u{200b}width".as_bytes(),
        b"back\\slash",
        b"c:stream",
        b"\xff\xfe",
    ];
    for name in odd {
        fs::write(scene.on_disk("dir").join(OsStr::from_bytes(name)), "needle").unwrap();
    }
    scene.put("dir/plain", "needle");
    let listing = scene.files.list(&path("dir")).await.unwrap();
    assert_eq!(listing.entries.len(), 1);
    let search = GrepQuery {
        pattern: "needle".into(),
        ..GrepQuery::default()
    };
    let found = scene
        .files
        .grep(search, CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(found.matches.len(), 1);
    let found = scene
        .files
        .find(FindQuery::default(), CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(found.paths.len(), 2);
    assert_eq!(scene.files.usage().await.unwrap().files, 9);
    scene
        .files
        .remove(&path("dir"), RemoveMode::Recursive, None)
        .await
        .unwrap();
    assert_eq!(scene.files.usage().await.unwrap().files, 0);
}
