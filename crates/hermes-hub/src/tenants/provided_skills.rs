//! Skills of the library that tenants get from their flavor and their groups. The Hub keeps those in homes current: a new
//! revision replaces the old one, and what a tenant is no longer given is removed. A skill that a tenant has of its own is
//! left alone, and one that was removed from a home comes back with its next revision.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    Problem,
    storage::{
        files::{
            ArchiveEntry, ArchiveLimits, HomeDirectory, SharePath, read_archive, run_blocking,
        },
        state::{State, TenantRecord},
    },
    tenants::documents::EffectiveDocuments,
};

const SKILLS: &str = "skills";

/// Makes the skills in a home those that its tenant is given. Returns the names of those that could not be installed.
pub(crate) async fn provide_skills(
    state: &dyn State,
    documents: &EffectiveDocuments,
    home: &Path,
    record: &TenantRecord,
) -> Result<Vec<String>, Problem> {
    if record.linked_home.is_some() {
        return Ok(Vec::new());
    }
    let mut wanted: BTreeSet<String> = documents
        .flavor_skills(&record.flavor)
        .into_iter()
        .collect();
    if !record.groups.is_empty() {
        wanted.extend(state.skills_of_groups_of(&record.id).await?);
    }
    let present = state.provided_skills(&record.id).await?;
    if wanted.is_empty() && present.is_empty() {
        return Ok(Vec::new());
    }
    for name in present.keys().filter(|name| !wanted.contains(*name)) {
        remove_skill(home, name).await?;
        state.record_provided_skill(&record.id, name, None).await?;
    }
    let names: Vec<String> = wanted.into_iter().collect();
    let revisions = state.library_revisions(&names).await?;
    let mut missing = Vec::new();
    for name in names {
        let provided = present.get(&name);
        let Some(revision) = revisions.get(&name) else {
            // A copy that is there stays.
            if provided.is_none() {
                missing.push(name);
            }
            continue;
        };
        if provided == Some(revision) || (provided.is_none() && has_skill(home, &name).await?) {
            continue;
        }
        if install_skill(state, home, &name).await? {
            state
                .record_provided_skill(&record.id, &name, Some(*revision))
                .await?;
        } else {
            missing.push(name);
        }
    }
    Ok(missing)
}

/// Whether it was installed.
async fn install_skill(state: &dyn State, home: &Path, name: &str) -> Result<bool, Problem> {
    let Some((_, archive)) = state.library_skill(name).await? else {
        return Ok(false);
    };
    let (home, place) = (home.to_owned(), name.to_owned());
    let installed = run_blocking(move || {
        let files = unpack(&archive)?;
        let skills = HomeDirectory::open_or_create(&home, SKILLS)
            .map_err(|error| Problem::internal(&error))?;
        skills
            .replace_tree(&place, &files)
            .map_err(|error| Problem::internal(&error))
    });
    Ok(installed.await.is_ok())
}

/// Whether the home has a skill of this name, whoever put it there.
async fn has_skill(home: &Path, name: &str) -> Result<bool, Problem> {
    let path = home.join(SKILLS).join(name);
    run_blocking(move || Ok(path.symlink_metadata().is_ok())).await
}

async fn remove_skill(home: &Path, name: &str) -> Result<(), Problem> {
    let (home, name) = (home.to_owned(), name.to_owned());
    run_blocking(move || {
        let Ok(home) = HomeDirectory::open_home(&home) else {
            return Ok(());
        };
        home.remove_all(&[SKILLS, &name])
            .map_err(|error| Problem::internal(&error))
    })
    .await
}

fn unpack(archive: &[u8]) -> Result<Vec<(SharePath, Vec<u8>)>, Problem> {
    let mut files = BTreeMap::new();
    read_archive(archive, ArchiveLimits::OF_SKILL, |entry| {
        if let ArchiveEntry::File(path, _, content) = entry {
            let mut bytes = Vec::new();
            content
                .read_to_end(&mut bytes)
                .map_err(|error| Problem::internal(&error))?;
            files.insert(path.as_str().to_owned(), (path, bytes));
        }
        Ok(())
    })?;
    Ok(files.into_values().collect())
}
