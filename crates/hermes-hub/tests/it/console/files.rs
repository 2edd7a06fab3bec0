//! The files of a tenant and of a share: nothing leaves its root, and nothing runs.

mod search;
mod uploads;

use std::{fs, io::Write};

use reqwest::{Method, header};
use serde_json::json;

use super::{ConsoleBrowser, ConsolePage};
use crate::test_hub::TestHub;

const FILES: &str = "/tenants/tenant_123/files";
const SHARE: &str = "/groups/division1/files?tenant=tenant_123";

async fn hub_with_files() -> TestHub {
    let hub = TestHub::new().await.with_examples().await;
    let workspace = hub.home("tenant_123").join("workspace");
    fs::create_dir_all(workspace.join("docs/deep")).unwrap();
    fs::write(workspace.join("docs/note.md"), "first\nsecond\n").unwrap();
    fs::write(workspace.join("small.txt"), "a").unwrap();
    fs::write(workspace.join("large.txt"), "b".repeat(2000)).unwrap();
    hub
}

/// A form with files: fields as they are, files as name and content.
async fn upload(
    browser: &ConsoleBrowser,
    address: &str,
    fields: &[(&str, &str)],
    files: &[(&str, &[u8])],
) -> ConsolePage {
    let mut body = Vec::new();
    for (name, value) in fields {
        write!(
            body,
            "--XyZ\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        )
        .unwrap();
    }
    for (name, content) in files {
        write!(body, "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: text/html\r\n\r\n").unwrap();
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--XyZ--\r\n");
    let request = browser
        .request(Method::POST, address)
        .header(header::CONTENT_TYPE, "multipart/form-data; boundary=XyZ")
        .header("sec-fetch-site", "same-origin")
        .body(body);
    browser.send(request).await
}

#[tokio::test]
async fn a_folder_shows_its_entries_in_the_order_of_the_address() {
    let hub = hub_with_files().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get(FILES).await.expect_status(200);
    for text in ["docs", "small.txt", "1.9 KiB", "Folder", "Division 1"] {
        page.assert_shows(text);
    }
    let order = |page: &ConsolePage| {
        let at = |name: &str| page.text.find(&format!("<bdi>{name}</bdi>")).unwrap();
        (at("docs"), at("small.txt") < at("large.txt"))
    };
    assert!(!order(&page).1);
    let by_size = admin.get(&format!("{FILES}?sort=size")).await;
    assert!(order(&by_size).1);
    by_size.assert_shows("aria-sort=\"ascending\"");
    let below = admin.get(&format!("{FILES}?path=docs")).await;
    below.assert_shows("note.md");
    below.assert_shows("deep");
    below.assert_shows("class=\"crumbs\"");
    let german = ConsoleBrowser::as_admin(&hub).await.speaking("de");
    german.get(FILES).await.assert_shows("Ordner");
}

#[tokio::test]
async fn a_folder_with_many_entries_is_shown_in_pages() {
    let hub = hub_with_files().await;
    let many = hub.home("tenant_123").join("workspace/many");
    fs::create_dir(&many).unwrap();
    for number in 0..250 {
        fs::write(many.join(format!("note-{number:03}")), "").unwrap();
    }
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let first = admin.get(&format!("{FILES}?path=many")).await;
    first.assert_shows("250 entries");
    first.assert_shows("note-199");
    first.assert_lacks("note-200");
    let second = admin.get(&format!("{FILES}?path=many&page=2")).await;
    second.assert_shows("note-249");
    second.assert_lacks("note-199");
    let behind = admin.get(&format!("{FILES}?path=many&page=99999")).await;
    behind.expect_status(200).assert_shows("note-249");
}

#[tokio::test]
async fn no_path_leads_out_of_the_workspace_or_the_share() {
    let hub = hub_with_files().await;
    fs::write(hub.home("tenant_123").join("outside.txt"), "SECRET").unwrap();
    std::os::unix::fs::symlink(
        hub.home("tenant_123").join("outside.txt"),
        hub.home("tenant_123").join("workspace/link"),
    )
    .unwrap();
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let raw = format!("{FILES}/raw");
    for path in [
        "../outside.txt",
        "docs/../../outside.txt",
        "/etc/passwd",
        "..",
        "link",
        "..%5Coutside.txt",
        "%2e%2e/outside.txt",
        "docs%00/x",
    ] {
        for address in [
            format!("{FILES}?path={path}"),
            format!("{raw}?path={path}"),
            format!("{raw}?path={path}&show=1"),
            format!("{SHARE}&path={path}"),
            format!("/groups/division1/files/raw?tenant=tenant_123&path={path}"),
            format!("{SHARE}&search=a&path={path}"),
        ] {
            let page = admin.get(&address).await;
            assert!((400..500).contains(&page.status), "{address}: {page:?}");
            page.assert_lacks("SECRET");
        }
    }
    let token = admin.csrf().to_owned();
    for (directory, name) in [("..", "x"), ("docs", ".."), ("/tmp", "x"), ("docs/..", "x")] {
        let fields = [("csrf", token.as_str()), ("directory", directory)];
        let page = upload(&admin, &format!("{FILES}/upload"), &fields, &[(name, b"x")]).await;
        assert_eq!(page.status, 400, "{directory} {name}: {}", page.text);
    }
    // Only the last part of a name counts.
    let fields = [("csrf", token.as_str()), ("directory", "docs")];
    let sent = [("../../../evil.txt", &b"x"[..])];
    upload(&admin, &format!("{FILES}/upload"), &fields, &sent)
        .await
        .expect_status(303);
    let workspace = hub.home("tenant_123").join("workspace");
    assert!(workspace.join("docs/evil.txt").is_file());
    for (operation, fields) in [
        ("move_file", [("from", "small.txt"), ("to", "../x")]),
        ("move_file", [("from", "../outside.txt"), ("to", "x")]),
        ("make_directory", [("path", "../x"), ("x", "")]),
        ("remove_file", [("path", "../outside.txt"), ("x", "")]),
        ("write_file", [("path", "../x"), ("content", "x")]),
    ] {
        let mut all = vec![("tenant_id", "tenant_123")];
        all.extend(fields);
        let page = admin.submit(&format!("/do/{operation}"), &all).await;
        assert_eq!(page.status, 400, "{operation}: {}", page.text);
    }
    assert!(hub.home("tenant_123").join("outside.txt").is_file());
}

#[tokio::test]
async fn hostile_names_and_contents_are_only_text() {
    let hub = hub_with_files().await;
    let workspace = hub.home("tenant_123").join("workspace");
    let long = "n".repeat(255);
    let names = [
        "<img src=x onerror=alert(1)>",
        "\"><script>alert(1)<",
        "a&b=c#d?e",
        "مرحبا",
        long.as_str(),
    ];
    for name in names {
        fs::write(workspace.join(name), "<script>alert(2)</script>").unwrap();
    }
    // These are not names that a path may have: they are not listed.
    fs::write(workspace.join("line\nbreak"), "x").unwrap();
    fs::write(workspace.join("turned\u{202e}txt.exe"), "x").unwrap();
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get(FILES).await.expect_status(200);
    page.assert_lacks("<script>alert");
    page.assert_lacks("<img src=x");
    page.assert_lacks("line\nbreak");
    page.assert_lacks("\u{202e}");
    let links: Vec<String> = page.links();
    let mut opened = 0;
    for link in links.iter().filter(|link| link.contains("files?path=")) {
        let file = admin.get(link).await.expect_status(200);
        if file.shows("alert(2)") {
            opened += 1;
            file.assert_lacks("<script>alert");
        }
    }
    assert_eq!(opened, names.len());
}

#[tokio::test]
async fn a_page_or_drawing_in_a_file_is_never_a_page_of_this_origin() {
    let hub = hub_with_files().await;
    let workspace = hub.home("tenant_123").join("workspace");
    fs::write(workspace.join("evil.html"), "<script>alert(1)</script>").unwrap();
    fs::write(workspace.join("evil.svg"), "<svg onload=\"alert(1)\"/>").unwrap();
    fs::write(workspace.join("fake.png"), "<script>alert(1)</script>").unwrap();
    fs::write(workspace.join("real.png"), b"\x89PNG\r\n\x1a\n0123456789").unwrap();
    let admin = ConsoleBrowser::as_admin(&hub).await;
    for name in ["evil.html", "evil.svg", "fake.png"] {
        for show in ["", "&show=1"] {
            let file = admin.get(&format!("{FILES}/raw?path={name}{show}")).await;
            let text = |name: &str| file.headers[name].to_str().unwrap().to_owned();
            assert_eq!(text("content-type"), "application/octet-stream", "{name}");
            assert!(text("content-disposition").starts_with("attachment; "));
            assert!(text("content-security-policy").contains("sandbox"));
            assert_eq!(text("x-content-type-options"), "nosniff");
        }
        let page = admin.get(&format!("{FILES}?path={name}")).await;
        page.assert_lacks("<img class=\"file\"");
        page.assert_lacks("<script>alert");
    }
    let page = admin.get(&format!("{FILES}?path=real.png")).await;
    page.assert_shows("<img class=\"file\"");
    let image = format!("{FILES}/raw?path=real.png&show=1");
    let image = admin.request(Method::GET, &image).send().await.unwrap();
    assert_eq!(image.headers()["content-type"], "image/png");
    let policy = image.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("sandbox"), "{policy}");
}

#[tokio::test]
async fn a_text_is_edited_and_a_change_in_between_is_shown() {
    let hub = hub_with_files().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let note = hub.home("tenant_123").join("workspace/docs/note.md");
    for (address, fields, read) in [
        (
            format!("{FILES}?path=docs/note.md&edit=1"),
            vec![("tenant_id", "tenant_123"), ("path", "docs/note.md")],
            "/do/write_file",
        ),
        (
            format!("{SHARE}&path=notes/report.md&edit=1"),
            vec![
                ("tenant_id", "tenant_123"),
                ("group_id", "division1"),
                ("path", "notes/report.md"),
            ],
            "/do/write_share_file",
        ),
    ] {
        let page = admin.get(&address).await.expect_status(200);
        page.assert_shows(&format!("action=\"{read}\""));
        let start = page.text.find("name=\"if_match\" value=\"").unwrap();
        let version = page.text[start..].split('"').nth(3).unwrap();
        let version = version.replace("&#34;", "\"").replace("&quot;", "\"");
        let current = if read == "/do/write_file" {
            "read_file"
        } else {
            "read_share_file"
        };
        let mut form = fields.clone();
        form.extend([
            ("if_match", version.as_str()),
            ("current", current),
            ("content:empty", ""),
            ("content", "mine\r\ntwo\r\n"),
            ("next", FILES),
        ]);
        admin.submit(read, &form).await.expect_status(200);
        let mut late = form.clone();
        late[fields.len() + 3] = ("content", "later\r\n");
        let conflict = admin.submit(read, &late).await.expect_status(412);
        conflict.assert_shows("mine");
        conflict.assert_shows("later");
    }
    assert_eq!(fs::read_to_string(note).unwrap(), "mine\ntwo\n");
}

#[tokio::test]
async fn files_are_sent_in_pieces_and_nothing_is_overwritten_by_chance() {
    let hub = hub_with_files().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let workspace = hub.home("tenant_123").join("workspace");
    let large: Vec<u8> = (0..9_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let address = format!("{FILES}/upload");
    let token = admin.csrf().to_owned();
    let fields = [("csrf", token.as_str()), ("directory", "docs")];
    let files = [("big.bin", large.as_slice()), ("empty", b"")];
    let page = upload(&admin, &address, &fields, &files).await;
    assert_eq!(page.status, 303, "{}", page.text);
    assert_eq!(fs::read(workspace.join("docs/big.bin")).unwrap(), large);
    assert_eq!(fs::read(workspace.join("docs/empty")).unwrap(), b"");
    let again = [("big.bin", &b"other"[..])];
    let page = upload(&admin, &address, &fields, &again).await;
    assert_eq!(page.status, 409, "{}", page.text);
    assert_eq!(fs::read(workspace.join("docs/big.bin")).unwrap(), large);
    let replacing = [fields[0], fields[1], ("replace", "on")];
    upload(&admin, &address, &replacing, &again)
        .await
        .expect_status(303);
    assert_eq!(fs::read(workspace.join("docs/big.bin")).unwrap(), b"other");
    let none = upload(&admin, &address, &fields, &[("", b"")]).await;
    assert_eq!(none.status, 400, "{}", none.text);
    let named = [fields[0], fields[1], ("name", "new.md"), ("content", "new")];
    upload(&admin, &address, &named, &[])
        .await
        .expect_status(303);
    assert_eq!(fs::read(workspace.join("docs/new.md")).unwrap(), b"new");
    let share = "/groups/division1/files/upload?tenant=tenant_123";
    let page = upload(&admin, share, &[fields[0]], &[("x.bin", b"\0\xff")]).await;
    assert_eq!(page.status, 303, "{}", page.text);
    admin
        .get(&format!("{SHARE}&path=x.bin"))
        .await
        .expect_status(200)
        .assert_shows("2 B");
    let entries = fs::read_dir(workspace.join("docs")).unwrap();
    let left = entries.filter(|name| {
        let name = name.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with(".upload-")
    });
    assert_eq!(left.count(), 0);
}

#[tokio::test]
async fn files_without_the_token_of_the_session_are_refused() {
    let hub = hub_with_files().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let address = format!("{FILES}/upload");
    let file = [("x.txt", &b"x"[..])];
    for fields in [vec![], vec![("csrf", "wrong")], vec![("directory", "docs")]] {
        let page = upload(&admin, &address, &fields, &file).await;
        assert_eq!(page.status, 403, "{}", page.text);
    }
    let plain = admin.post(&address, &[("csrf", admin.csrf())]).await;
    assert_eq!(plain.status, 400, "{}", plain.text);
    let workspace = hub.home("tenant_123").join("workspace");
    assert!(!workspace.join("x.txt").exists());
}

#[tokio::test]
async fn what_is_removed_from_a_share_is_restored() {
    let hub = hub_with_files().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let share = [("tenant_id", "tenant_123"), ("group_id", "division1")];
    let removal = [
        share[0],
        share[1],
        ("path", "notes"),
        ("recursive", "true"),
        ("next", SHARE),
    ];
    let page = admin.submit("/do/remove_share_path", &removal).await;
    page.assert_lacks("<bdi>notes</bdi>");
    page.assert_shows("/groups/division1/trash?tenant=tenant_123");
    let trash = "/groups/division1/trash?tenant=tenant_123";
    let page = admin.get(trash).await.expect_status(200);
    page.assert_shows("notes");
    let id = page.text.split("name=\"id\" value=\"").nth(1).unwrap();
    let id = id.split('"').next().unwrap();
    let restore = [share[0], share[1], ("id", id), ("next", trash)];
    let page = admin.submit("/do/restore_share_path", &restore).await;
    page.assert_shows("It is back where it was.");
    let file = admin.get(&format!("{SHARE}&path=notes/report.md")).await;
    file.assert_shows("an invoice");
    let again = admin.submit("/do/restore_share_path", &restore).await;
    assert_eq!(again.status, 404, "{}", again.text);
    // Where something else is by now, nothing is overwritten.
    let removal = [share[0], share[1], ("path", "draft.md"), ("next", SHARE)];
    admin.submit("/do/remove_share_path", &removal).await;
    let body = json!({"path": "draft.md", "content": "newer"});
    let content = "/v1/tenants/tenant_123/shares/division1/files/content";
    hub.put(content, &body).await.expect(201);
    let page = admin.get(trash).await;
    let id = page.text.split("name=\"id\" value=\"").nth(1).unwrap();
    let id = id.split('"').next().unwrap();
    let restore = [share[0], share[1], ("id", id), ("next", trash)];
    let page = admin.submit("/do/restore_share_path", &restore).await;
    assert_eq!(page.status, 409, "{}", page.text);
}

#[tokio::test]
async fn another_group_of_the_same_name_does_not_get_what_was_removed() {
    let hub = hub_with_files().await;
    let share = "/v1/tenants/tenant_123/shares/division1";
    let removed = hub.delete(&format!("{share}/files?path=draft.md")).await;
    assert_eq!(removed.status, 204, "{}", removed.text);
    let deleted = hub.delete("/v1/groups/division1?force=true").await;
    assert_eq!(deleted.status, 204, "{}", deleted.text);
    let group = json!({"id": "division1"});
    hub.post("/v1/groups", &group).await.expect(201);
    let member = json!({"access": "write"});
    hub.put("/v1/groups/division1/members/tenant_123", &member)
        .await
        .expect(200);
    let trash = hub.get(&format!("{share}/trash")).await.expect(200);
    assert_eq!(trash["entries"], json!([]));
}

#[tokio::test]
async fn who_may_only_read_sees_no_way_to_change() {
    let hub = hub_with_files().await;
    hub.tenant(json!({"id": "other", "groups": [{"id": "division1", "access": "read"}]}))
        .await;
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    for address in [
        FILES.to_owned(),
        format!("{FILES}?path=small.txt"),
        format!("{FILES}?path=small.txt&edit=1"),
        SHARE.to_owned(),
        "/groups/division1/trash?tenant=tenant_123".to_owned(),
    ] {
        let page = viewer.get(&address).await.expect_status(200);
        for form in [
            "/do/write",
            "/do/remove",
            "/do/move",
            "/do/make",
            "/do/restore",
        ] {
            page.assert_lacks(form);
        }
        page.assert_lacks("files/upload");
        page.assert_lacks("<textarea");
    }
    let token = viewer.csrf().to_owned();
    let address = format!("{FILES}/upload");
    let page = upload(&viewer, &address, &[("csrf", &token)], &[("x", b"x")]).await;
    assert_eq!(page.status, 403, "{}", page.text);
    // The member may only read, whoever looks.
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/groups/division1/files?tenant=other").await;
    page.expect_status(200).assert_lacks("files/upload");
}

#[tokio::test]
async fn files_of_another_tenant_are_not_there() {
    let hub = hub_with_files().await;
    hub.tenant(json!({"id": "other"})).await;
    let rights = json!({"role": "operator", "tenants": ["other"]});
    let bound = ConsoleBrowser::with_rights(&hub, rights).await;
    for address in [
        FILES,
        "/tenants/tenant_123/files/raw?path=small.txt",
        SHARE,
        "/groups/division1/files?tenant=other",
        "/groups/division1/trash?tenant=tenant_123",
        "/groups/division1/files/raw?tenant=tenant_123&path=draft.md",
    ] {
        let page = bound.get(address).await.expect_status(404);
        page.assert_lacks("Division 1");
    }
    let token = bound.csrf().to_owned();
    let fields = [("csrf", token.as_str())];
    let page = upload(&bound, &format!("{FILES}/upload"), &fields, &[("x", b"x")]).await;
    assert_eq!(page.status, 404, "{}", page.text);
    bound.get("/tenants/other/files").await.expect_status(200);
}

#[tokio::test]
async fn a_file_beyond_the_quota_leaves_nothing_behind() {
    let hub = hub_with_files().await;
    let quota = json!({"quotaBytes": 5_000_000});
    hub.patch("/v1/groups/division1", &quota).await.expect(200);
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let token = admin.csrf().to_owned();
    let address = "/groups/division1/files/upload?tenant=tenant_123";
    let content = vec![b'x'; 6_000_000];
    let fields = [("csrf", token.as_str())];
    let page = upload(&admin, address, &fields, &[("x.bin", &content)]).await;
    assert_eq!(page.status, 507, "{}", page.text);
    let page = admin.get(SHARE).await.expect_status(200);
    page.assert_lacks("x.bin");
    page.assert_lacks(".upload-");
}

#[tokio::test]
async fn a_home_without_a_workspace_shows_an_empty_one() {
    let hub = hub_with_files().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    fs::remove_dir_all(hub.home("tenant_123").join("workspace")).unwrap();
    admin
        .get(FILES)
        .await
        .expect_status(200)
        .assert_lacks("small.txt");
    let inside = format!("{FILES}?path=docs");
    admin.get(&inside).await.expect_status(404);
}
