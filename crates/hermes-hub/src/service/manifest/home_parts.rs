//! Parts that are files of the home: texts, skills, and the workspace.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::{ManifestFile, ManifestMemory, ManifestPart, ManifestRun, in_part};
use crate::{
    Problem, ProblemCode,
    api_types::{MemoryKind, PartOutcome},
    service::{
        call::Call,
        character::{TextFile, read_text, write_text},
        files::open_workspace,
        skills::{install::install_package, installed_files, package::SkillPackage},
        workspace::{change_workspace, file_content},
    },
    storage::files::{CreateOutcome, Files, SharePath, WriteMode},
};

/// A skill that a document names.
pub(super) struct WantedSkill {
    pub(super) name: String,
    /// Absent if it only has to be there.
    pub(super) package: Option<SkillPackage>,
    pub(super) category: Option<String>,
}

impl ManifestRun {
    pub(super) async fn apply_texts(
        &mut self,
        soul: Option<String>,
        memory: Option<ManifestMemory>,
    ) -> Result<(), Problem> {
        let (notes, user) = memory.map_or((None, None), |memory| (memory.memory, memory.user));
        for (part, file, content) in [
            ("soul", TextFile::Soul, soul),
            ("memory.memory", TextFile::Memory(MemoryKind::Memory), notes),
            ("memory.user", TextFile::Memory(MemoryKind::User), user),
        ] {
            let Some(content) = content else { continue };
            let before = match &self.tenant {
                Some(tenant) => {
                    let call = self.part_call(part);
                    read_text(&call, tenant, file).await?.into_content()
                }
                None => String::new(),
            };
            let shown = |text: &str| match text {
                "" => Value::Null,
                text => json!(text),
            };
            let compared = ManifestPart::compared(part, shown(&before), shown(&content));
            let is_same = compared.outcome == PartOutcome::Unchanged;
            if !is_same
                && !self.is_dry
                && let Some(tenant) = &self.tenant
            {
                let call = self.part_call(part);
                let written = write_text(&call, tenant, file, content).await;
                written.map_err(in_part(part))?;
            }
            self.parts.push(compared);
        }
        Ok(())
    }

    pub(super) async fn apply_skills(&mut self, wanted: Vec<WantedSkill>) -> Result<(), Problem> {
        for skill in wanted {
            let part = format!("skills.{}", skill.name);
            let outcome = self
                .apply_skill(&part, skill)
                .await
                .map_err(in_part(&part))?;
            self.parts.push(ManifestPart::new(part, outcome));
        }
        Ok(())
    }

    async fn apply_skill(&self, part: &str, skill: WantedSkill) -> Result<PartOutcome, Problem> {
        let Some(package) = skill.package else {
            return Ok(PartOutcome::Unchanged);
        };
        let Some(tenant) = &self.tenant else {
            return Ok(PartOutcome::Created);
        };
        let call: Call = self.part_call(part);
        let present = installed_files(&call, tenant, &skill.name).await?;
        if present.as_ref() == Some(package.files()) {
            return Ok(PartOutcome::Unchanged);
        }
        if !self.is_dry {
            install_package(&call, tenant, package, skill.category).await?;
        }
        Ok(match present {
            Some(_) => PartOutcome::Changed,
            None => PartOutcome::Created,
        })
    }

    /// Writes the files that differ, in one change.
    pub(super) async fn apply_files(&mut self, files: Vec<ManifestFile>) -> Result<(), Problem> {
        let mut different = Vec::new();
        for file in &files {
            let (path, content) = wanted_file(file)?;
            let present = match &self.tenant {
                Some(_) => read_present(&self.part_call("files"), &path, content.len()).await?,
                None => None,
            };
            let outcome = match present {
                Some(present) if present == content => PartOutcome::Unchanged,
                Some(_) => PartOutcome::Changed,
                None => PartOutcome::Created,
            };
            if outcome != PartOutcome::Unchanged {
                different.push((path.clone(), content));
            }
            if self.is_dry || outcome == PartOutcome::Unchanged {
                self.parts
                    .push(ManifestPart::new(format!("files.{path}"), outcome));
            }
        }
        let Some(tenant) = self.tenant.clone().filter(|_| !self.is_dry) else {
            return Ok(());
        };
        if different.is_empty() {
            return Ok(());
        }
        let call = self.part_call("files");
        let mut written = Vec::new();
        let done = change_workspace(&call, &tenant, |files| {
            let written = &mut written;
            async move {
                for (path, content) in different {
                    let mode = WriteMode::Overwrite;
                    let (placed, _) = files.write(&path, content, mode, None).await?;
                    let outcome = match placed {
                        CreateOutcome::Created => PartOutcome::Created,
                        CreateOutcome::Replaced => PartOutcome::Changed,
                    };
                    written.push(ManifestPart::new(format!("files.{path}"), outcome));
                }
                Ok(())
            }
        })
        .await;
        self.parts.extend(written);
        done.map_err(in_part("files"))
    }
}

pub(super) fn wanted_file(file: &ManifestFile) -> Result<(SharePath, Bytes), Problem> {
    let path = SharePath::parse(&file.path)?;
    let content = file_content(file.content.clone(), file.content_base64.as_deref())?;
    Ok((path, content))
}

/// What a file has, if it is no longer than what it is compared with; empty bytes stand for another length.
async fn read_present(
    call: &Call,
    path: &SharePath,
    length: usize,
) -> Result<Option<Bytes>, Problem> {
    let download = match open_workspace(call).await?.download(path, None).await {
        Ok(download) => download,
        Err(problem) if problem.code == ProblemCode::NotFound => return Ok(None),
        Err(problem) => return Err(problem),
    };
    if download.length != length as u64 {
        // Never equal to content of that length.
        return Ok(Some(Bytes::from_static(if length == 0 {
            b"x"
        } else {
            b""
        })));
    }
    let mut present = Vec::new();
    let mut file = download.file.take(download.length);
    file.read_to_end(&mut present)
        .await
        .map_err(|error| Problem::internal(&error))?;
    Ok(Some(present.into()))
}
