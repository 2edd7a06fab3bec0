//! A share in a temporary directory, with a secret beside it.

use std::{fmt::Debug, fs, path::PathBuf};

use hermes_hub::{
    Problem,
    storage::files::{
        CreateOutcome, DirectoryFiles, FileLimits, Files, IfMatch, SharePath, WriteMode,
        WrittenFile,
    },
};

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
        let names: Vec<_> = fs::read_dir(self.outside())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["secret"]);
        let secret = fs::read_to_string(self.outside().join("secret")).unwrap();
        assert_eq!(secret, OUTSIDE_SECRET);
    }
}
