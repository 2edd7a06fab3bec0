//! A share in a temporary directory, with a secret beside it.

use std::{
    fmt::Debug,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use hermes_hub::{
    GroupId, Problem,
    settings::ObjectSettings,
    storage::{
        files::{
            BlobStore, CreateOutcome, DirectoryFiles, FileLimits, Files, IfMatch, LineRange,
            ObjectFiles, SharePath, TreeUsage, WriteMode, WrittenFile,
        },
        objects::Objects,
        state::State,
    },
};
use hermes_testkit::postgres::TestDatabase;

use crate::storage::state::open_postgres;

pub(crate) const OUTSIDE_SECRET: &str = "SECRET of somebody else";

pub(crate) struct ShareFixture {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) files: DirectoryFiles,
}

pub(crate) fn path(text: &str) -> SharePath {
    SharePath::parse(text).unwrap()
}

/// The status a client would see.
pub(crate) fn problem_status<T: Debug>(result: Result<T, Problem>) -> u16 {
    result
        .expect_err("this should have been refused")
        .code
        .status()
}

impl ShareFixture {
    pub(crate) fn new() -> Self {
        Self::with_limits(FileLimits::default())
    }

    pub(crate) fn with_limits(limits: FileLimits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["share", "trash", "outside"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("outside/secret"), OUTSIDE_SECRET).unwrap();
        let files = DirectoryFiles::open(
            &directory.path().join("share"),
            &directory.path().join("trash"),
            limits,
        )
        .unwrap();
        Self { directory, files }
    }

    pub(crate) fn on_disk(&self, path: &str) -> PathBuf {
        self.directory.path().join("share").join(path)
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.directory.path().join("outside")
    }

    /// Writes a file directly to the disk.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let place = self.on_disk(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    }

    pub(crate) async fn write(
        &self,
        to: &str,
        content: &str,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        self.write_as(to, content, WriteMode::Overwrite, None).await
    }

    pub(crate) async fn append(
        &self,
        to: &str,
        content: &str,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        self.write_as(to, content, WriteMode::Append, None).await
    }

    pub(crate) async fn write_as(
        &self,
        to: &str,
        content: &str,
        mode: WriteMode,
        condition: Option<IfMatch>,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        let content = content.as_bytes().to_vec().into();
        self.files.write(&path(to), content, mode, condition).await
    }

    pub(crate) fn assert_outside_is_untouched(&self) {
        assert_holds_the_secret(&self.outside());
    }
}

fn assert_holds_the_secret(directory: &Path) {
    assert_eq!(names_in(directory), ["secret"]);
    let secret = fs::read_to_string(directory.join("secret")).unwrap();
    assert_eq!(secret, OUTSIDE_SECRET);
}

/// What is in a directory, in order.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A share of either kind: in object storage for tests in a module of that name, otherwise in a directory.
pub(crate) struct AnyShare {
    pub(crate) files: Arc<dyn Files>,
    kind: ShareKind,
    limits: FileLimits,
}

enum ShareKind {
    Directory(DirectoryFiles, tempfile::TempDir),
    Objects(Box<ObjectShareFixture>),
}

impl AnyShare {
    pub(crate) async fn new() -> Self {
        Self::with_limits(FileLimits::default()).await
    }

    pub(crate) async fn with_limits(limits: FileLimits) -> Self {
        let thread = std::thread::current();
        if thread.name().unwrap_or_default().contains("on_objects") {
            let fixture = ObjectShareFixture::new().await;
            return Self {
                files: Arc::new(fixture.open(limits)),
                kind: ShareKind::Objects(Box::new(fixture)),
                limits,
            };
        }
        let ShareFixture { directory, files } = ShareFixture::with_limits(limits);
        Self {
            files: Arc::new(files.clone()),
            kind: ShareKind::Directory(files, directory),
            limits,
        }
    }

    /// With a secret outside of it: in the directory beside its own, or in the share of others.
    pub(crate) async fn beside_a_secret() -> Self {
        let this = Self::new().await;
        if let ShareKind::Objects(fixture) = &this.kind {
            let (to, content) = (
                path("secret"),
                Bytes::from_static(OUTSIDE_SECRET.as_bytes()),
            );
            let others = fixture.open_share("outside", FileLimits::default());
            let written = others.write(&to, content, WriteMode::Overwrite, None);
            written.await.unwrap();
        }
        this
    }

    /// The secret is as it was, and nothing is beside it.
    pub(crate) async fn assert_outside_is_untouched(&self) {
        match &self.kind {
            ShareKind::Directory(_, directory) => {
                assert_holds_the_secret(&directory.path().join("outside"));
                assert_eq!(names_in(directory.path()), ["outside", "share", "trash"]);
            }
            ShareKind::Objects(fixture) => {
                let others = fixture.open_share("outside", FileLimits::default());
                let listing = others.list(&SharePath::root()).await.unwrap();
                let names = listing.entries.iter().map(|entry| entry.name.as_str());
                assert_eq!(names.collect::<Vec<_>>(), ["secret"]);
                let text = others.read(&path("secret"), LineRange::default()).await;
                assert_eq!(text.unwrap().content, OUTSIDE_SECRET);
                let root = fixture.directory.path();
                assert_eq!(names_in(root), ["cache", "objects"]);
                assert_eq!(names_in(&root.join("objects")), ["blobs"]);
            }
        }
    }

    /// Writes a file of any size.
    pub(crate) async fn put(&self, to: &str, content: impl AsRef<[u8]>) {
        self.files.set_limits(FileLimits::default());
        let mut parts = content.as_ref().chunks(8 << 20);
        let first = Bytes::copy_from_slice(parts.next().unwrap_or_default());
        let mut mode = WriteMode::Overwrite;
        for part in std::iter::once(first).chain(parts.map(Bytes::copy_from_slice)) {
            self.files.write(&path(to), part, mode, None).await.unwrap();
            mode = WriteMode::Append;
        }
        self.files.set_limits(self.limits);
    }

    /// The whole text of a file.
    pub(crate) async fn content(&self, of: &str) -> String {
        self.files.set_limits(FileLimits {
            read_bytes: 1 << 30,
            ..self.limits
        });
        let text = self.files.read(&path(of), LineRange::default()).await;
        self.files.set_limits(self.limits);
        text.unwrap().content
    }

    pub(crate) async fn exists(&self, at: &str) -> bool {
        self.files.stat(&path(at)).await.is_ok()
    }

    /// The number of entries in a directory.
    pub(crate) async fn count(&self, of: &str) -> usize {
        self.files.list(&path(of)).await.unwrap().entries.len()
    }

    /// The usage, counted anew.
    pub(crate) async fn count_usage(&self) -> TreeUsage {
        match &self.kind {
            ShareKind::Directory(files, _) => files.recount().await.unwrap(),
            ShareKind::Objects(fixture) => fixture.count_usage(),
        }
    }

    pub(crate) async fn write(
        &self,
        to: &str,
        content: &str,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        self.write_as(to, content, WriteMode::Overwrite, None).await
    }

    pub(crate) async fn append(
        &self,
        to: &str,
        content: &str,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        self.write_as(to, content, WriteMode::Append, None).await
    }

    pub(crate) async fn write_as(
        &self,
        to: &str,
        content: &str,
        mode: WriteMode,
        condition: Option<IfMatch>,
    ) -> Result<(CreateOutcome, WrittenFile), Problem> {
        let content = content.as_bytes().to_vec().into();
        self.files.write(&path(to), content, mode, condition).await
    }
}

/// Object storage in a directory, with the index in a database of its own.
pub(crate) struct ObjectShareFixture {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) objects: Objects,
    pub(crate) state: Arc<dyn State>,
    pub(crate) database: TestDatabase,
}

impl ObjectShareFixture {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("file://{}", directory.path().join("objects").display());
        let objects = Objects::open(&ObjectSettings::at(url)).unwrap();
        Self::over(objects, directory).await
    }

    pub(crate) async fn over(objects: Objects, directory: tempfile::TempDir) -> Self {
        let database = TestDatabase::create();
        let state = open_postgres(database.url(), "n1").await;
        Self {
            directory,
            objects,
            state,
            database,
        }
    }

    pub(crate) fn blobs(&self, cache: &str) -> Arc<BlobStore> {
        let index = self.state.share_index().unwrap();
        let cache = self.directory.path().join(cache);
        Arc::new(BlobStore::open(self.objects.clone(), index, &cache).unwrap())
    }

    /// The share as one node sees it.
    pub(crate) fn open(&self, limits: FileLimits) -> ObjectFiles {
        self.open_share("finance", limits)
    }

    fn open_share(&self, group: &str, limits: FileLimits) -> ObjectFiles {
        let index = self.state.share_index().unwrap();
        let group = GroupId::parse(group).unwrap();
        ObjectFiles::open(group, index, self.blobs("cache"), limits)
    }

    fn count_usage(&self) -> TreeUsage {
        let counted = self
            .database
            .run_sql("SELECT coalesce(sum(size), 0) || ' ' || count(*) FROM share_entries");
        let (bytes, files) = counted.trim().split_once(' ').unwrap();
        TreeUsage {
            bytes: bytes.parse().unwrap(),
            files: files.parse().unwrap(),
        }
    }
}
