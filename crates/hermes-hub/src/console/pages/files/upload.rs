//! Files that a form sends. Each is written in pieces under a name of its own, and gets its real name when it is
//! complete: nobody sees half a file, and nothing is overwritten that was not meant.

use axum::{
    body::Body,
    response::{IntoResponse, Redirect, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::BytesMut;
use http::header;
use serde_json::Value;

use super::{FileTree, TreeFacts, UNFINISHED, join};
use crate::{
    Problem, ProblemCode,
    console::{
        multipart::MultipartForm,
        pages::problem_in_place,
        request::{CallOptions, PageRequest},
        session_cookie::foreign_form,
        view::bytes,
    },
};

/// What is written at once.
const PIECE_BYTES: usize = 4 << 20;
/// How much is still read of a form that is refused.
const DISCARDED_BYTES: usize = 64 << 20;
/// An archive is unpacked as a whole, or not at all: it is in memory until then.
const MAX_ARCHIVE_BYTES: usize = 64 << 20;
const ARCHIVE_ENDINGS: [&str; 3] = [".tar", ".tar.zst", ".tzst"];

/// The fields before the files.
#[derive(Default)]
struct UploadFields {
    has_token: bool,
    directory: String,
    replaces: bool,
    /// Whether archives are unpacked where they were sent to.
    unpacks: bool,
    /// The name of a file whose content is a field.
    name: String,
    stored: u64,
}

pub(in crate::console) async fn receive_files(request: PageRequest, body: Body) -> Response {
    // Whoever goes away in the middle leaves no part of a file behind.
    let owner = request.clone();
    let work = async move { receive(&owner, body).await };
    let received = match request.hub.tasks().spawn(work).await {
        Ok(received) => received,
        Err(error) => Err(Problem::internal(&error)),
    };
    match received {
        Ok(next) => Redirect::to(&next).into_response(),
        Err(problem) => problem_in_place(&request, &problem),
    }
}

async fn receive(request: &PageRequest, body: Body) -> Result<String, Problem> {
    let tree = FileTree::of_request(request)?;
    let mut form = MultipartForm::new(&request.headers, body.into_data_stream())?;
    let mut fields = UploadFields::default();
    let received = match check_room(request, &tree).await {
        Ok(()) => read_form(request, &tree, &mut form, &mut fields).await,
        Err(problem) => Err(problem),
    };
    if let Err(problem) = received {
        form.discard(DISCARDED_BYTES).await;
        return Err(problem);
    }
    if fields.stored == 0 {
        return Err(
            Problem::invalid("no file was chosen; choose one and send the form again")
                .with_reason("no_file"),
        );
    }
    let values = [("path", fields.directory.as_str()), ("done", "upload")];
    Ok(tree.address("files", &values))
}

/// Refuses what certainly has no room, before it is sent.
async fn check_room(request: &PageRequest, tree: &FileTree) -> Result<(), Problem> {
    /// What a form has besides its files.
    const OTHER_BYTES: u64 = 64 * 1024;
    let length = request.headers.get(header::CONTENT_LENGTH);
    let length: Option<u64> = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let Some(length) = length.filter(|length| *length > OTHER_BYTES) else {
        return Ok(());
    };
    let facts = TreeFacts::read(request, tree).await?;
    match facts.room_left() {
        Some(left) if length - OTHER_BYTES > left => Err(Problem::new(
            ProblemCode::OutOfSpace,
            request
                .texts
                .get("files.no_room")
                .replace("{n}", &bytes(request.texts, length))
                .replace("{name}", &bytes(request.texts, left)),
        )),
        _ => Ok(()),
    }
}

async fn read_form(
    request: &PageRequest,
    tree: &FileTree,
    form: &mut MultipartForm,
    fields: &mut UploadFields,
) -> Result<(), Problem> {
    while let Some(head) = form.next_field().await? {
        let name = match (head.name.as_str(), head.file_name) {
            ("csrf", _) => {
                fields.has_token = request.csrf.matches(&form.text().await?);
                continue;
            }
            ("directory", _) => {
                fields.directory = form.text().await?;
                continue;
            }
            ("replace", _) => {
                fields.replaces = form.text().await? == "on";
                continue;
            }
            ("unpack", _) => {
                fields.unpacks = form.text().await? == "on";
                continue;
            }
            ("name", _) => {
                fields.name = form.text().await?;
                continue;
            }
            ("content", None) => fields.name.clone(),
            ("file", Some(name)) => name,
            _ => continue,
        };
        if !fields.has_token {
            return Err(foreign_form());
        }
        // Some browsers send the path on their own machine.
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        let is_archive = ARCHIVE_ENDINGS.iter().any(|ending| name.ends_with(ending));
        if fields.unpacks && is_archive && tree.group.is_none() {
            unpack_archive(request, tree, &fields.directory, form).await?;
            fields.stored += 1;
            continue;
        }
        let upload = FileUpload {
            request,
            tree,
            target: join(&fields.directory, name),
            unfinished: join(
                &fields.directory,
                &format!("{UNFINISHED}{}", hermes_config::random::random_digits(24)),
            ),
            replaces: fields.replaces,
        };
        upload.store(form).await?;
        fields.stored += 1;
    }
    if fields.has_token {
        Ok(())
    } else {
        Err(foreign_form())
    }
}

async fn unpack_archive(
    request: &PageRequest,
    tree: &FileTree,
    directory: &str,
    form: &mut MultipartForm,
) -> Result<(), Problem> {
    let mut archive = BytesMut::new();
    while let Some(piece) = form.next_piece().await? {
        archive.extend_from_slice(&piece);
        if archive.len() > MAX_ARCHIVE_BYTES {
            return Err(Problem::new(
                ProblemCode::PayloadTooLarge,
                "an archive to unpack has at most 64 MiB; send it without unpacking, or in parts",
            )
            .with_reason("large_archive"));
        }
    }
    let mut arguments = tree.arguments_with("path", directory);
    arguments["archive"] = BASE64_STANDARD.encode(&archive).into();
    let options = CallOptions::default();
    let unpacked = request.call("upload_archive", arguments, options).await;
    unpacked.map(drop)
}

/// One file on its way.
struct FileUpload<'a> {
    request: &'a PageRequest,
    tree: &'a FileTree,
    target: String,
    /// Its name until it is complete.
    unfinished: String,
    replaces: bool,
}

impl FileUpload<'_> {
    async fn store(&self, form: &mut MultipartForm) -> Result<(), Problem> {
        let stored = match self.write_pieces(form).await {
            Ok(()) => self.give_name().await,
            Err(problem) => Err(problem),
        };
        if stored.is_err() {
            // It may not have been begun.
            let _ = self.remove(&self.unfinished).await;
        }
        stored
    }

    async fn write_pieces(&self, form: &mut MultipartForm) -> Result<(), Problem> {
        let mut piece = BytesMut::new();
        let mut is_begun = false;
        while let Some(more) = form.next_piece().await? {
            piece.extend_from_slice(&more);
            if piece.len() >= PIECE_BYTES {
                self.write(&piece, is_begun).await?;
                is_begun = true;
                piece.clear();
            }
        }
        if !is_begun || !piece.is_empty() {
            self.write(&piece, is_begun).await?;
        }
        Ok(())
    }

    async fn write(&self, piece: &[u8], appends: bool) -> Result<(), Problem> {
        let mut arguments = self.tree.arguments_with("path", &self.unfinished);
        arguments["content_base64"] = BASE64_STANDARD.encode(piece).into();
        arguments["mode"] = if appends { "append" } else { "overwrite" }.into();
        self.change(self.tree.operations.upload, arguments).await
    }

    async fn give_name(&self) -> Result<(), Problem> {
        match self.move_to_target().await {
            Err(problem) if self.replaces && problem.code == ProblemCode::AlreadyExists => {
                self.remove(&self.target).await?;
                self.move_to_target().await
            }
            moved => moved,
        }
    }

    async fn move_to_target(&self) -> Result<(), Problem> {
        let mut arguments = self.tree.arguments_with("from", &self.unfinished);
        arguments["to"] = self.target.as_str().into();
        self.change(self.tree.operations.relocate, arguments).await
    }

    async fn remove(&self, path: &str) -> Result<(), Problem> {
        let arguments = self.tree.arguments_with("path", path);
        self.change(self.tree.operations.remove, arguments).await
    }

    async fn change(&self, operation: &str, arguments: Value) -> Result<(), Problem> {
        let options = CallOptions::default();
        self.request
            .call(operation, arguments, options)
            .await
            .map(drop)
    }
}
