use std::{fs, os::unix::fs::symlink};

use hermes_hub::storage::files::{ByteRange, FileLimits, LineRange, Workspace};
use tokio::io::AsyncReadExt;

use crate::storage::files::fixture::{ShareFixture, path, problem_status};

fn workspace(scene: &ShareFixture) -> Workspace {
    let share = scene.on_disk("");
    let (home, name) = (share.parent().unwrap(), share.file_name().unwrap());
    Workspace::open(home, name.to_str().unwrap(), FileLimits::default()).unwrap()
}

async fn download(workspace: &Workspace, at: &str, range: Option<&str>) -> Vec<u8> {
    let range = range.map(|range| ByteRange::parse(range).unwrap());
    let download = workspace.download(&path(at), range).await.unwrap();
    let mut content = Vec::new();
    download
        .file
        .take(download.length)
        .read_to_end(&mut content)
        .await
        .unwrap();
    content
}

#[tokio::test]
async fn a_workspace_is_listed_and_read_like_a_share() {
    let scene = ShareFixture::new();
    scene.put("src/main.py", "print(1)\n");
    let workspace = workspace(&scene);
    assert_eq!(
        workspace.list(&path("src")).await.unwrap().entries[0].path,
        "src/main.py"
    );
    assert_eq!(workspace.stat(&path("src/main.py")).await.unwrap().size, 9);
    let text = workspace
        .read(&path("src/main.py"), LineRange::default())
        .await
        .unwrap();
    assert_eq!(text.content, "print(1)\n");
}

#[tokio::test]
async fn a_download_gives_bytes_as_they_are_or_a_part_of_them() {
    let scene = ShareFixture::new();
    scene.put("data.bin", b"\x00\x01\x02\x03\x04\xff");
    let workspace = workspace(&scene);
    assert_eq!(
        download(&workspace, "data.bin", None).await,
        b"\x00\x01\x02\x03\x04\xff"
    );
    assert_eq!(
        download(&workspace, "data.bin", Some("bytes=1-2")).await,
        b"\x01\x02"
    );
    assert_eq!(
        download(&workspace, "data.bin", Some("bytes=-2")).await,
        b"\x04\xff"
    );
    let whole = workspace.download(&path("data.bin"), None).await.unwrap();
    assert_eq!((whole.start, whole.length, whole.entry.size), (0, 6, 6));
    let beyond = workspace
        .download(&path("data.bin"), ByteRange::parse("bytes=6-"))
        .await
        .unwrap_err();
    assert_eq!(beyond.reason, Some("range"));
}

#[tokio::test]
async fn what_an_agent_links_from_outside_is_not_given_out() {
    let scene = ShareFixture::new();
    symlink(scene.outside().join("secret"), scene.on_disk("out")).unwrap();
    symlink(scene.outside(), scene.on_disk("outdir")).unwrap();
    fs::create_dir(scene.on_disk("dir")).unwrap();
    let workspace = workspace(&scene);
    for at in ["out", "outdir/secret"] {
        assert_eq!(
            problem_status(workspace.download(&path(at), None).await),
            409
        );
        assert_eq!(
            problem_status(workspace.read(&path(at), LineRange::default()).await),
            409
        );
    }
    assert_eq!(problem_status(workspace.list(&path("outdir")).await), 409);
    assert_eq!(
        problem_status(workspace.download(&path("dir"), None).await),
        409
    );
    assert_eq!(
        problem_status(workspace.download(&path("none"), None).await),
        404
    );
}
