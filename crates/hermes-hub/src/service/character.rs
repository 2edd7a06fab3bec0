//! What an agent is and knows: its `SOUL.md` and its memories, as they are in its home. New conversations begin with
//! them.

use std::time::Duration;

use hermes_config::{Settings, Variables};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{TenantRef, directory_problem, recorded_with, run_blocking};
use crate::{
    Problem, ProblemCode, TenantId,
    api_types::{MemoryKind, ids::hex},
    hub::HomeChange,
    service::call::{Call, Reply, etag},
    storage::{
        files::{HomeDirectory, SharePath, TreeUsage, problem_from_io},
        state::{FileChange, TenantRecord},
    },
};

/// What an agent reads of it.
const MAX_SOUL_CHARS: usize = 20_000;
const DEFAULT_MEMORY_CHARS: usize = 2200;
const DEFAULT_USER_CHARS: usize = 1375;
/// An agent holds a memory only while it writes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const CONFIG_FILE: &str = "config.yaml";

/// A text of an agent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentText {
    /// The text; empty if there is none.
    content: String,
    /// How many characters it may have.
    max_chars: usize,
    /// Its version.
    etag: String,
}

/// A new text for `SOUL.md`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutSoul {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// The text, up to 20,000 characters; empty for none.
    content: String,
}

/// A memory of a tenant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemoryRef {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// `memory` or `user`.
    kind: MemoryKind,
}

/// A new text for a memory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutMemory {
    /// The tenant's id.
    #[expect(dead_code, reason = "the gate has found the tenant")]
    tenant_id: TenantId,
    /// `memory` or `user`.
    kind: MemoryKind,
    /// The text: entries, with a line `§` between them; empty for none.
    content: String,
}

/// A file of a home that a text is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFile {
    Soul,
    Memory(MemoryKind),
}

impl TextFile {
    /// The directory in the home; empty for the home itself.
    fn directory(self) -> &'static str {
        match self {
            Self::Soul => "",
            Self::Memory(_) => "memories",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Soul => "SOUL.md",
            Self::Memory(MemoryKind::Memory) => "MEMORY.md",
            Self::Memory(MemoryKind::User) => "USER.md",
        }
    }

    /// The lock that agents take to change it.
    fn lock(self) -> Option<&'static str> {
        match self {
            Self::Soul => None,
            Self::Memory(MemoryKind::Memory) => Some("MEMORY.md.lock"),
            Self::Memory(MemoryKind::User) => Some("USER.md.lock"),
        }
    }

    fn max_chars(self, config: &Value) -> usize {
        let (key, default) = match self {
            Self::Soul => return MAX_SOUL_CHARS,
            Self::Memory(MemoryKind::Memory) => ("memory_char_limit", DEFAULT_MEMORY_CHARS),
            Self::Memory(MemoryKind::User) => ("user_char_limit", DEFAULT_USER_CHARS),
        };
        let limit = config["memory"][key].as_u64();
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        limit.filter(|limit| *limit > 0).unwrap_or(default)
    }

    fn path(self) -> Result<SharePath, Problem> {
        SharePath::parse(self.name())
    }
}

pub(crate) async fn get_soul(call: Call, _: TenantRef) -> Result<Reply, Problem> {
    text_reply(&read_text(&call, call.tenant()?, TextFile::Soul).await?)
}

pub(crate) async fn put_soul(call: Call, input: PutSoul) -> Result<Reply, Problem> {
    let record = call.tenant()?;
    text_reply(&write_text(&call, record, TextFile::Soul, input.content).await?)
}

pub(crate) async fn get_memory(call: Call, input: MemoryRef) -> Result<Reply, Problem> {
    text_reply(&read_text(&call, call.tenant()?, TextFile::Memory(input.kind)).await?)
}

pub(crate) async fn put_memory(call: Call, input: PutMemory) -> Result<Reply, Problem> {
    let file = TextFile::Memory(input.kind);
    text_reply(&write_text(&call, call.tenant()?, file, input.content).await?)
}

fn text_reply(text: &AgentText) -> Result<Reply, Problem> {
    Ok(Reply::json(text)?.etag(text.etag.clone()))
}

impl AgentText {
    fn new(content: String, max_chars: usize) -> Self {
        Self {
            etag: etag(&hex(&Sha256::digest(&content))[..16]),
            content,
            max_chars,
        }
    }

    pub(crate) fn into_content(self) -> String {
        self.content
    }
}

pub(crate) async fn read_text(
    call: &Call,
    record: &TenantRecord,
    file: TextFile,
) -> Result<AgentText, Problem> {
    let home = call.hub.home(record);
    run_blocking(move || {
        let config = read_config(home.path());
        let directory = match file.directory() {
            "" => HomeDirectory::open_home(home.path()),
            name => HomeDirectory::open(home.path(), name),
        };
        let content = match directory {
            Err(rustix::io::Errno::NOENT) => None,
            directory => {
                let directory = directory
                    .map_err(|error| directory_problem(&error.into(), file.directory()))?;
                read_file(&directory, file)?
            }
        };
        Ok(AgentText::new(
            content.unwrap_or_default(),
            file.max_chars(&config),
        ))
    })
    .await
}

fn read_file(directory: &HomeDirectory, file: TextFile) -> Result<Option<String>, Problem> {
    directory.read(file.name()).map_err(|error| {
        tracing::warn!(%error, file = file.name(), "failed to read a text of a tenant");
        Problem::precondition(format!(
            "the tenant's `{}` is a link or not text, and the Hub does not follow links there; put a file in its place",
            file.name()
        ))
        .with_reason("wrong_type")
    })
}

/// Writes a text, if its version is still the one that the caller knows.
pub(crate) async fn write_text(
    call: &Call,
    record: &TenantRecord,
    file: TextFile,
    content: String,
) -> Result<AgentText, Problem> {
    let change: HomeChange = call.hub.begin_home_change(record).await?;
    change.check_room(TreeUsage {
        bytes: content.len() as u64,
        files: 0,
    })?;
    let home = call.hub.home(record);
    let wanted = call.clone();
    let work = run_blocking(move || {
        let max_chars = file.max_chars(&read_config(home.path()));
        check_text(file, &content, max_chars)?;
        let opened = match file.directory() {
            "" => HomeDirectory::open_home(home.path()),
            name => HomeDirectory::open_or_create(home.path(), name),
        };
        let directory =
            opened.map_err(|error| directory_problem(&error.into(), file.directory()))?;
        let _lock = file
            .lock()
            .map(|name| directory.lock(name, LOCK_TIMEOUT))
            .transpose()
            .map_err(|_| {
                Problem::new(
                    ProblemCode::Unavailable,
                    "the tenant's agent is writing this memory; try again in a moment",
                )
                .with_reason("busy")
                .with_retry_after(1000)
            })?;
        if wanted.if_match.is_some() {
            let before = read_file(&directory, file)?.unwrap_or_default();
            wanted.check_version(&AgentText::new(before, max_chars).etag)?;
        }
        let path = file.path()?;
        directory
            .replace(file.name(), content.as_bytes())
            .map_err(|error| problem_from_io(&error, &path))?;
        Ok(AgentText::new(content, max_chars))
    });
    let tenant = record.id.clone();
    let intent = match file {
        TextFile::Soul => FileChange::Home { tenant },
        TextFile::Memory(_) => FileChange::HomeFiles {
            tenant,
            directory: file.directory().to_owned(),
        },
    };
    recorded_with(call, intent, work, change.measure()).await
}

/// Whether a text could be written; `record` is absent for a tenant that is still to be made.
pub(crate) async fn check_new_text(
    call: &Call,
    record: Option<&TenantRecord>,
    file: TextFile,
    content: &str,
) -> Result<(), Problem> {
    let max_chars = match record {
        Some(record) => read_text(call, record, file).await?.max_chars,
        None => file.max_chars(&Value::Null),
    };
    check_text(file, content, max_chars)
}

fn check_text(file: TextFile, content: &str, max_chars: usize) -> Result<(), Problem> {
    let chars = content.chars().count();
    if chars > max_chars {
        return Err(Problem::new(
            ProblemCode::PayloadTooLarge,
            format!(
                "`{}` has at most {max_chars} characters, and this has {chars}: shorten it",
                file.name()
            ),
        )
        .with_detail("content", "too long"));
    }
    if content.contains('\0') {
        return Err(
            Problem::invalid("`content` holds a NUL character").with_detail("content", "NUL")
        );
    }
    Ok(())
}

/// The configuration of a home as it is written; nothing if it cannot be read.
fn read_config(home: &std::path::Path) -> Value {
    let text = HomeDirectory::open_home(home)
        .ok()
        .and_then(|directory| directory.read_settings(CONFIG_FILE).ok().flatten());
    let nothing = Variables::from_pairs::<String, String>([]);
    let settings = Settings::parse(&text.unwrap_or_default(), nothing);
    settings.map_or(Value::Null, |settings| settings.document)
}
