//! Backup and restore.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use hermes_hub::{
    TenantId,
    api_types::{KeyKind, NewKey, TenantStatus, new_uid},
    storage::{
        audit::NewAuditEntry,
        backup::{BackupError, KeyInBackup, restore_backup, write_backup},
        data_dir::DataDir,
        encryption::{EncryptionContext, SecretKey},
        state::{
            AuditStore, EnvStore, NewRuntimeKey, NewTenant, NewVariable, SqliteState, State,
            TenantQuery, TenantStore,
        },
    },
};
use hermes_store::db::{Database, DatabaseOptions, Durability};
use hermes_testkit::eventually;
use tempfile::TempDir;

use crate::test_hub::TIMEOUT;

mod foreign;

/// A writer whose bytes can be read after it was moved.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct BackupFixture {
    root: TempDir,
    directory: DataDir,
    state: Arc<SqliteState>,
    key: SecretKey,
}

impl BackupFixture {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let directory = DataDir::create(root.path().join("hub")).unwrap();
        let node = directory.node_id().unwrap();
        let state = SqliteState::open(&directory.database(), &node)
            .await
            .unwrap();
        let key = SecretKey::load(&directory.secret_key(), &state)
            .await
            .unwrap();
        Self {
            root,
            directory,
            state: Arc::new(state),
            key,
        }
    }

    async fn tenant(&self, id: &str) -> TenantId {
        let uid = new_uid().unwrap();
        let key = NewKey::random(KeyKind::Runtime).unwrap();
        let tenant = NewTenant {
            id: TenantId::parse(id).unwrap(),
            display_name: id.into(),
            status: TenantStatus::Ready,
            flavor: "standard".into(),
            agent: serde_json::Map::new(),
            storage: serde_json::Map::new(),
            browser: serde_json::Map::new(),
            groups: Vec::new(),
            labels: [].into(),
            linked_home: None,
            runtime_key: NewRuntimeKey::encrypt(&self.key, &uid, &key, None).unwrap(),
            env: vec![NewVariable::encrypt(&self.key, &uid, "API_KEY", "hunter2").unwrap()],
            uid,
        };
        let entry = NewAuditEntry::by_hub("create_tenant");
        let made = self.state.create_tenant(tenant, entry).await.unwrap();
        let home = self.directory.home(&made.id);
        fs::create_dir_all(home.join("workspace")).unwrap();
        fs::write(home.join("SOUL.md"), "text").unwrap();
        made.id
    }

    async fn backup(&self, key: KeyInBackup) -> Vec<u8> {
        let written = SharedBuffer::default();
        write_backup(&self.directory, &self.state, key, written.clone())
            .await
            .unwrap();
        written.bytes()
    }

    fn target(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }
}

async fn open_restored(path: &Path) -> (DataDir, SqliteState) {
    let directory = DataDir::create(path).unwrap();
    let node = directory.node_id().unwrap();
    let state = SqliteState::open(&directory.database(), &node)
        .await
        .unwrap();
    (directory, state)
}

#[tokio::test]
async fn a_backup_restores_to_an_equal_hub() {
    let hub = BackupFixture::new().await;
    let id = hub.tenant("a").await;
    let share = hub.directory.shares().join("division1");
    fs::create_dir_all(share.join("empty")).unwrap();
    let long = format!("{}.md", "n".repeat(180));
    fs::write(share.join(&long), vec![7; 300_000]).unwrap();
    std::os::unix::fs::symlink(&long, share.join("link")).unwrap();
    fs::write(hub.directory.settings(), "listen: 127.0.0.1:1\n").unwrap();
    fs::write(hub.directory.admin_token(), "planted token").unwrap();
    fs::write(hub.directory.logs().join("hub.log"), "line").unwrap();
    let bytes = hub.backup(KeyInBackup::With).await;
    let target = hub.target("restored");
    let restored = restore_backup(io::Cursor::new(bytes), &target)
        .await
        .unwrap();
    assert!(!restored.is_key_missing && restored.manifest.has_key);
    let (directory, state) = open_restored(&target).await;
    assert_eq!(
        directory.node_id().unwrap(),
        hub.directory.node_id().unwrap()
    );
    let tenant = state.tenant(&id).await.unwrap().unwrap();
    assert_eq!(Some(&tenant), hub.state.tenant(&id).await.unwrap().as_ref());
    let key = SecretKey::load(&directory.secret_key(), &state)
        .await
        .unwrap();
    let sealed = state.encrypted_env(&id).await.unwrap();
    let value = key.decrypt(
        &EncryptionContext::variable(&tenant.uid, "API_KEY"),
        &sealed[0].1,
    );
    assert_eq!(value.unwrap().expose(), "hunter2");
    assert_eq!(state.verify_audit().await.unwrap()[0].broken, None);
    let home = directory.home(&id);
    assert_eq!(fs::read_to_string(home.join("SOUL.md")).unwrap(), "text");
    assert!(home.join("workspace").is_dir());
    let share = directory.shares().join("division1");
    assert!(share.join("empty").is_dir());
    assert_eq!(fs::read(share.join("link")).unwrap(), vec![7; 300_000]);
    assert!(directory.settings().exists() && directory.admin_token().exists());
    assert!(!directory.logs().join("hub.log").exists());
    assert!(!target.join(".restoring").exists());
    let left: Vec<_> = fs::read_dir(hub.directory.path())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.starts_with(".backup"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn keys_are_left_out_unless_asked_for_and_their_lack_is_told() {
    let hub = BackupFixture::new().await;
    hub.tenant("a").await;
    fs::write(hub.directory.admin_token(), "planted token").unwrap();
    let bytes = hub.backup(KeyInBackup::Without).await;
    let target = hub.target("restored");
    let restored = restore_backup(io::Cursor::new(bytes), &target)
        .await
        .unwrap();
    assert!(restored.is_key_missing);
    assert!(!target.join("secret.key").exists() && !target.join("admin.token").exists());
}

#[tokio::test]
async fn a_backup_under_load_is_whole() {
    let hub = BackupFixture::new().await;
    hub.tenant("first").await;
    let database = hub
        .directory
        .home(&TenantId::parse("first").unwrap())
        .join("state.db");
    let opening = DatabaseOptions {
        steps: &["CREATE TABLE said (x INTEGER)"],
        durability: Durability::Process,
        write_timeout: TIMEOUT,
    };
    let agents = Database::open(&database, opening).await.unwrap();
    let (done, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let busy = async {
        while !done.load(Ordering::Relaxed) {
            let number = count.load(Ordering::Relaxed);
            hub.tenant(&format!("t{number}")).await;
            let mut write = agents.begin().await.unwrap();
            // Two rows or none.
            sqlx::query("INSERT INTO said VALUES (1), (2)")
                .execute(&mut *write)
                .await
                .unwrap();
            write.commit_without_checkpoint().await.unwrap();
            count.store(number + 1, Ordering::Relaxed);
        }
    };
    let backup = async {
        let is_busy = || count.load(Ordering::Relaxed) > 0;
        assert!(eventually(TIMEOUT, is_busy).await);
        let bytes = hub.backup(KeyInBackup::With).await;
        done.store(true, Ordering::Relaxed);
        bytes
    };
    let ((), bytes) = tokio::join!(busy, backup);
    let target = hub.target("restored");
    restore_backup(io::Cursor::new(bytes), &target)
        .await
        .unwrap();
    let (directory, state) = open_restored(&target).await;
    assert_eq!(state.verify_audit().await.unwrap()[0].broken, None);
    let page = hermes_hub::storage::state::Page::first(500);
    let tenants = state.tenants(&TenantQuery::default(), &page).await.unwrap();
    assert!(!tenants.items.is_empty());
    let database = directory
        .home(&TenantId::parse("first").unwrap())
        .join("state.db");
    let opening = DatabaseOptions {
        steps: &["CREATE TABLE said (x INTEGER)"],
        durability: Durability::Process,
        write_timeout: TIMEOUT,
    };
    let agents = Database::open(&database, opening).await.unwrap();
    let rows: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM said")
        .fetch_one(agents.readers())
        .await
        .unwrap();
    assert_eq!(rows % 2, 0, "a write was torn");
    assert!(rows > 0);
}

#[tokio::test]
async fn damaged_archives_restore_nothing() {
    let hub = BackupFixture::new().await;
    hub.tenant("a").await;
    let bytes = hub.backup(KeyInBackup::With).await;
    let target = hub.target("restored");
    let refuse = async |bytes: Vec<u8>, what: &str| {
        let refused = restore_backup(io::Cursor::new(bytes), &target)
            .await
            .unwrap_err();
        assert!(
            matches!(refused, BackupError::Damaged(_)),
            "{what}: {refused}"
        );
        let left = fs::read_dir(&target).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{what} left something");
    };
    refuse(Vec::new(), "an empty file").await;
    refuse(b"something else".to_vec(), "no archive").await;
    refuse(bytes[..bytes.len() / 2].to_vec(), "half an archive").await;
    refuse(bytes[..bytes.len() - 1].to_vec(), "all but a byte").await;
    for part in 1..8 {
        let mut changed = bytes.clone();
        let at = changed.len() * part / 8;
        changed[at] ^= 1;
        refuse(changed, "a changed byte").await;
    }
    let plain = zstd::decode_all(bytes.as_slice()).unwrap();
    let at = plain
        .windows(4)
        .position(|part| part == b"text")
        .expect("the file's content");
    let mut changed = plain.clone();
    changed[at] = b'T';
    let changed = zstd::encode_all(changed.as_slice(), 1).unwrap();
    refuse(changed, "another content, packed anew").await;
}

#[tokio::test]
async fn paths_that_lead_out_and_unlisted_files_are_refused() {
    let hub = BackupFixture::new().await;
    let outside = hub.root.path().join("outside");
    for name in ["../outside", "tenants/../../outside"] {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(3);
        header.set_mode(0o600);
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        archive.append(&header, b"bad".as_slice()).unwrap();
        let bytes = zstd::encode_all(archive.into_inner().unwrap().as_slice(), 1).unwrap();
        let refused = restore_backup(io::Cursor::new(bytes), &hub.target("restored")).await;
        assert!(matches!(refused, Err(BackupError::Damaged(_))), "{name}");
        assert!(!outside.exists());
    }
    let plain = zstd::decode_all(hub.backup(KeyInBackup::With).await.as_slice()).unwrap();
    let mut extra = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    header.set_mode(0o600);
    extra
        .append_data(&mut header, "tenants/extra", b"bad".as_slice())
        .unwrap();
    // Without its end, another archive can follow.
    let mut bytes = extra.get_ref().clone();
    bytes.extend(plain);
    let bytes = zstd::encode_all(bytes.as_slice(), 1).unwrap();
    let refused = restore_backup(io::Cursor::new(bytes), &hub.target("restored")).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("not in the manifest"), "{refused}");
}

#[tokio::test]
async fn a_directory_with_something_in_it_is_left_alone() {
    let hub = BackupFixture::new().await;
    let bytes = hub.backup(KeyInBackup::With).await;
    let target = hub.target("used");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("file"), "mine").unwrap();
    let refused = restore_backup(io::Cursor::new(bytes), &target).await;
    assert!(matches!(refused, Err(BackupError::NotEmpty { .. })));
    assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
    assert!(hub.state.has_encrypted().await.is_ok());
}

/// A name that is not UTF-8.
fn raw_name(name: &[u8]) -> PathBuf {
    PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name))
}

#[tokio::test]
async fn names_that_are_not_utf_8_are_backed_up_and_restored() {
    let hub = BackupFixture::new().await;
    let tenant = hub.tenant("a").await;
    let names = [
        raw_name(b"workspace/\xff"),
        raw_name(b"workspace/d\xe9/\xfe\xff.txt"),
        PathBuf::from("workspace/%FF"),
    ];
    let home = hub.directory.home(&tenant);
    fs::create_dir(home.join(raw_name(b"workspace/d\xe9"))).unwrap();
    for (number, name) in names.iter().enumerate() {
        fs::write(home.join(name), format!("text {number}")).unwrap();
    }
    std::os::unix::fs::symlink(&names[0], home.join(raw_name(b"link\x80"))).unwrap();
    let written = hub.backup(KeyInBackup::Without).await;
    let target = hub.target("restored");
    restore_backup(io::Cursor::new(written), &target)
        .await
        .unwrap();
    let (directory, state) = open_restored(&target).await;
    let restored = directory.home(&tenant);
    for (number, name) in names.iter().enumerate() {
        let text = fs::read_to_string(restored.join(name)).unwrap();
        assert_eq!(text, format!("text {number}"));
    }
    let link = fs::read_link(restored.join(raw_name(b"link\x80"))).unwrap();
    assert_eq!(link, names[0]);
    State::close(&state).await;
}

#[tokio::test]
async fn what_a_tenant_does_to_its_home_keeps_nobody_from_a_backup() {
    let hub = BackupFixture::new().await;
    let tenant = hub.tenant("a").await;
    let home = hub.directory.home(&tenant);
    fs::write(home.join("workspace/kept.txt"), "kept").unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let pipe = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, home.join("workspace/pipe"), pipe, mode, 0).unwrap();
    // Deeper than any path can be, so it is created relative to open directories.
    let name = "d".repeat(200);
    let mut directory = rustix::fs::open(
        home.join("workspace"),
        rustix::fs::OFlags::DIRECTORY,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    for _ in 0..300 {
        rustix::fs::mkdirat(&directory, &name, rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY;
        let inside = rustix::fs::openat(&directory, &name, flags, rustix::fs::Mode::empty());
        directory = inside.unwrap();
    }
    let written = SharedBuffer::default();
    let manifest = write_backup(
        &hub.directory,
        &hub.state,
        KeyInBackup::Without,
        written.clone(),
    );
    let manifest = manifest.await.unwrap();
    // Paths that are too deep are listed.
    assert!(!manifest.left_out.is_empty());
    let target = hub.target("restored");
    restore_backup(io::Cursor::new(written.bytes()), &target)
        .await
        .unwrap();
    let (directory, state) = open_restored(&target).await;
    let restored = directory.home(&tenant);
    let kept = fs::read_to_string(restored.join("workspace/kept.txt")).unwrap();
    assert_eq!(kept, "kept");
    assert!(!restored.join("workspace/pipe").exists());
    State::close(&state).await;
}

/// Gives everything below a directory to another user.
fn change_owner(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).unwrap() {
            change_owner(&entry.unwrap().path(), user);
        }
    }
}

#[test]
fn files_that_their_owner_keeps_to_itself_are_left_out_and_named() {
    use std::os::unix::fs::PermissionsExt;
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let (hub, tenant) = runtime().block_on(async {
        let hub = BackupFixture::new().await;
        let tenant = hub.tenant("a").await;
        State::close(&*hub.state).await;
        (hub, tenant)
    });
    let workspace = hub.directory.home(&tenant).join("workspace");
    fs::create_dir(workspace.join("closed")).unwrap();
    fs::write(workspace.join("closed/inside.txt"), "hidden").unwrap();
    fs::write(workspace.join("private.txt"), "hidden").unwrap();
    fs::write(workspace.join("open.txt"), "open").unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        change_owner(hub.root.path(), 65534);
    }
    for (name, mode) in [("closed", 0o000), ("private.txt", 0o000)] {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(workspace.join(name), permissions).unwrap();
    }
    let (directory, target) = (hub.directory.path().to_owned(), hub.target("restored"));
    // Root reads everything, so a thread of another user does it. Its own threads are that user's as well.
    let work = std::thread::spawn(move || {
        if is_root {
            let user = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        }
        runtime().block_on(async {
            let (directory, state) = open_restored(&directory).await;
            let written = SharedBuffer::default();
            let key = KeyInBackup::Without;
            let manifest = write_backup(&directory, &state, key, written.clone());
            let manifest = manifest.await.unwrap();
            restore_backup(io::Cursor::new(written.bytes()), &target)
                .await
                .unwrap();
            State::close(&state).await;
            (manifest, target)
        })
    });
    let (manifest, target) = work.join().unwrap();
    fs::set_permissions(workspace.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    let mut left_out = manifest.left_out;
    left_out.sort();
    let within = "tenants/a/home/workspace";
    assert_eq!(
        left_out,
        [format!("{within}/closed"), format!("{within}/private.txt")]
    );
    let restored = target.join(within);
    assert_eq!(
        fs::read_to_string(restored.join("open.txt")).unwrap(),
        "open"
    );
    assert!(!restored.join("private.txt").exists() && !restored.join("closed").exists());
}
