//! `hermes skill-library …`: skills that tenants can take from the Hub.

use std::path::Path;

use crate::{
    cli::{SkillLibraryArgs, SkillLibraryCommand},
    commands::hub::client::{Column, HubCall, HubClient, upload::list_files},
    context::Context,
    failure::{Failure, FailureKind},
};

const COLUMNS: &[Column] = &[
    ("SKILL", "/name"),
    ("VERSION", "/version"),
    ("FILES", "/fileCount"),
    ("UPDATED", "/updatedAt"),
    ("DESCRIPTION", "/description"),
];
const FILES: &[Column] = &[("SIZE", "/size"), ("PATH", "/path")];

pub(crate) fn run(context: &Context, args: SkillLibraryArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let output = hub.output();
    match args.command {
        SkillLibraryCommand::List(page) => {
            let call = HubCall::new("list_library_skills");
            let answer = hub.call_list(call, "skills", &page.into())?;
            hub.show_list(
                &answer,
                "skills",
                COLUMNS,
                "The library is empty. `hermes skill-library put` adds a skill.",
            );
        }
        SkillLibraryCommand::Show { name, file } => {
            let answer = hub.call(&HubCall::new("get_library_skill").with("name", name.clone()))?;
            if output.is_json() {
                return Ok(());
            }
            let Some(file) = file else {
                output.line(format!("{name}: {}", answer.text("/description")));
                hub.show_list(&answer, "files", FILES, "It has no files.");
                return Ok(());
            };
            let mut files = answer.value["files"].as_array().into_iter().flatten();
            let found = files.find(|known| known["path"] == file.as_str());
            let text = found.and_then(|file| file["content"].as_str());
            let text = text.ok_or_else(|| {
                Failure::new(
                    FailureKind::NotFound,
                    format!("the skill `{name}` has no text file `{file}`"),
                )
            })?;
            output.raw(text);
        }
        SkillLibraryCommand::Put { directory, version } => {
            let name = skill_name(&directory)?;
            let call = HubCall::new("put_library_skill")
                .with("name", name.clone())
                .with("files", list_files(&directory)?);
            hub.call(&call.if_match(version.if_match))?;
            output.note(format!("The library has `{name}`."));
        }
        SkillLibraryCommand::Remove { name, sure } => {
            hub.confirm(sure.yes, &format!("Remove `{name}` from the library?"))?;
            hub.call(&HubCall::new("delete_library_skill").with("name", name.clone()))?;
            output.note(format!("Removed `{name}`. Tenants that took it keep it."));
        }
    }
    Ok(())
}

/// The name of a skill is that of its directory.
pub(in crate::commands) fn skill_name(directory: &Path) -> Result<String, Failure> {
    let path = directory.canonicalize().map_err(|error| {
        Failure::usage(format!("`{}` cannot be read: {error}", directory.display()))
    })?;
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!(
            "`{}` is not the directory of a skill",
            directory.display()
        ))
    })
}
