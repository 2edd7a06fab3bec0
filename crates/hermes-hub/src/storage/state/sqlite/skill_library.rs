//! The library of skills in SQLite.

use async_trait::async_trait;
use sqlx::{SqliteConnection, sqlite::SqliteRow};

use super::{Affected, SqliteState, commit, to_column};
use crate::{
    api_types::Time,
    storage::{
        audit::NewAuditEntry,
        state::{
            LibrarySkillRecord, NewLibrarySkill, Page, Paged, SkillLibraryStore, StateError,
            columns::ColumnReader,
        },
    },
};

fn skill_from_row(row: &SqliteRow) -> Result<LibrarySkillRecord, StateError> {
    Ok(LibrarySkillRecord {
        name: row.text("name")?,
        description: row.text("description")?,
        version: row.optional_text("version")?,
        files: row.count("files")?,
        bytes: row.count("bytes")?,
        revision: row.count("revision")?,
        updated_at: row.time("updated_at")?,
        updated_by: row.text("updated_by")?,
    })
}

/// The revision of a skill, if it is the expected one; 0 if there is none.
async fn check_revision(
    write: &mut SqliteConnection,
    name: &str,
    expected: Option<u64>,
) -> Result<i64, StateError> {
    let revision: Option<i64> =
        sqlx::query_scalar("SELECT revision FROM library_skills WHERE name = ?1")
            .bind(name)
            .fetch_optional(write)
            .await?;
    let revision = revision.unwrap_or_default();
    if expected.is_some_and(|expected| to_column(expected) != revision) {
        return Err(StateError::Changed { what: "skill" });
    }
    Ok(revision)
}

#[async_trait]
impl SkillLibraryStore for SqliteState {
    async fn library_skills(&self, page: &Page) -> Result<Paged<LibrarySkillRecord>, StateError> {
        let last = page
            .cursor_key::<1>()?
            .map_or_else(String::new, |[last]| last);
        let rows = sqlx::query(
            "SELECT name, description, version, files, bytes, revision, updated_at, updated_by FROM library_skills
             WHERE name > ?1 ORDER BY name LIMIT ?2",
        )
        .bind(last)
        .bind(page.fetch_limit())
        .fetch_all(self.readers())
        .await?;
        let skills: Vec<_> = rows.iter().map(skill_from_row).collect::<Result<_, _>>()?;
        Ok(Paged::from_fetched(skills, page, |skill| {
            [skill.name.clone()]
        }))
    }

    async fn library_skill(
        &self,
        name: &str,
    ) -> Result<Option<(LibrarySkillRecord, Vec<u8>)>, StateError> {
        let row = sqlx::query("SELECT * FROM library_skills WHERE name = ?1")
            .bind(name)
            .fetch_optional(self.readers())
            .await?;
        row.map(|row| Ok((skill_from_row(&row)?, row.bytes("archive")?)))
            .transpose()
    }

    async fn put_library_skill(
        &self,
        skill: NewLibrarySkill,
        by: &str,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<LibrarySkillRecord, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let revision = check_revision(&mut write, &skill.name, expected).await? + 1;
        let updated_at = Time::now();
        sqlx::query(
            "INSERT INTO library_skills
                 (name, description, version, files, bytes, archive, revision, updated_at, updated_by)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (name) DO UPDATE SET description = excluded.description, version = excluded.version,
                 files = excluded.files, bytes = excluded.bytes, archive = excluded.archive,
                 revision = excluded.revision, updated_at = excluded.updated_at, updated_by = excluded.updated_by",
        )
        .bind(&skill.name)
        .bind(&skill.description)
        .bind(&skill.version)
        .bind(to_column(skill.files))
        .bind(to_column(skill.bytes))
        .bind(&skill.archive)
        .bind(revision)
        .bind(updated_at.millis())
        .bind(by)
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await?;
        Ok(LibrarySkillRecord {
            name: skill.name,
            description: skill.description,
            version: skill.version,
            files: skill.files,
            bytes: skill.bytes,
            revision: u64::try_from(revision).map_err(StateError::broken)?,
            updated_at,
            updated_by: by.to_owned(),
        })
    }

    async fn delete_library_skill(
        &self,
        name: &str,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        if check_revision(&mut write, name, expected).await? == 0 {
            return Err(StateError::NotFound { what: "skill" });
        }
        sqlx::query("DELETE FROM library_skills WHERE name = ?1")
            .bind(name)
            .execute(&mut *write)
            .await?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await
    }
}
