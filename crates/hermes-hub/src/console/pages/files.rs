//! Files in a browser: those of a tenant's workspace, and those of a group's share as one of its members sees them.

mod file;
mod folder;
mod search;
mod send;
mod trash;
mod upload;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Problem, console::request::PageRequest, service::NO_DIRECTORY, storage::files::Listing,
};

pub(in crate::console) use send::send_file;
pub(super) use trash::show as show_trash;
pub(in crate::console) use upload::receive_files;

/// What the name of a file begins with until all of it is there.
const UNFINISHED: &str = ".upload-";

/// The operations on one kind of file tree.
struct TreeOperations {
    list: &'static str,
    grep: &'static str,
    find: &'static str,
    read: &'static str,
    download: &'static str,
    write: &'static str,
    upload: &'static str,
    make: &'static str,
    relocate: &'static str,
    remove: &'static str,
}

const WORKSPACE: TreeOperations = TreeOperations {
    list: "list_files",
    grep: "grep_files",
    find: "find_files",
    read: "read_file",
    download: "download_file",
    write: "write_file",
    upload: "write_file",
    make: "make_directory",
    relocate: "move_file",
    remove: "remove_file",
};

const SHARE: TreeOperations = TreeOperations {
    list: "list_share_files",
    grep: "grep_share",
    find: "find_share_files",
    read: "read_share_file",
    download: "download_share_file",
    write: "write_share_file",
    upload: "upload_share_file",
    make: "make_share_dir",
    relocate: "move_share_path",
    remove: "remove_share_path",
};

/// A workspace, or a share as a member sees it.
struct FileTree {
    tenant: String,
    /// Only a share has one.
    group: Option<String>,
    operations: &'static TreeOperations,
}

/// A step of the way to a path.
struct Crumb {
    name: String,
    address: String,
}

impl FileTree {
    /// The tree that an address names. A share is seen by the member in its query.
    fn of_request(request: &PageRequest) -> Result<Self, Problem> {
        match request.path_value("group_id") {
            "" => Ok(Self {
                tenant: request.path_value("tenant_id").to_owned(),
                group: None,
                operations: &WORKSPACE,
            }),
            group => {
                let tenant = request
                    .query("tenant")
                    .ok_or_else(|| Problem::invalid(request.texts.get("groups.whose_share")))?;
                Ok(Self {
                    tenant: tenant.to_owned(),
                    group: Some(group.to_owned()),
                    operations: &SHARE,
                })
            }
        }
    }

    /// The address of a page of this tree, with values in its query. Empty ones are left out.
    fn address(&self, page: &str, values: &[(&str, &str)]) -> String {
        let encode = |text: &str| -> String {
            url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
        };
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let base = match &self.group {
            None => format!("/tenants/{}", encode(&self.tenant)),
            Some(group) => {
                query.append_pair("tenant", &self.tenant);
                format!("/groups/{}", encode(group))
            }
        };
        query.extend_pairs(values.iter().filter(|(_, value)| !value.is_empty()));
        match query.finish().as_str() {
            "" => format!("{base}/{page}"),
            query => format!("{base}/{page}?{query}"),
        }
    }

    /// Where a path is shown.
    fn address_of(&self, path: &str) -> String {
        self.address("files", &[("path", path)])
    }

    /// The arguments that name the tree.
    fn arguments(&self) -> Value {
        match &self.group {
            None => json!({"tenant_id": self.tenant}),
            Some(group) => json!({"tenant_id": self.tenant, "group_id": group}),
        }
    }

    fn arguments_with(&self, name: &str, value: &str) -> Value {
        let mut arguments = self.arguments();
        arguments[name] = value.into();
        arguments
    }

    /// The directories above a path, from the root on.
    fn crumbs(&self, path: &str, root: &str) -> Vec<Crumb> {
        let mut crumbs = vec![Crumb {
            name: root.to_owned(),
            address: self.address_of(""),
        }];
        for (at, _) in path.match_indices('/') {
            let above = &path[..at];
            crumbs.push(Crumb {
                name: last_segment(above).to_owned(),
                address: self.address_of(above),
            });
        }
        if path.is_empty() {
            crumbs.clear();
        }
        crumbs
    }
}

fn last_segment(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// A path in a directory.
fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

/// A share, as the member that looks sees it.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemberShare {
    group_id: String,
    display_name: String,
    access: String,
    used_bytes: u64,
    quota_bytes: u64,
}

#[derive(Deserialize)]
struct MemberShareList {
    shares: Vec<MemberShare>,
}

/// What a tree is called, how full it is, and what may be done with it.
struct TreeFacts {
    title: String,
    may_write: bool,
    room: Option<TreeQuota>,
}

/// How full a tree is.
struct TreeQuota {
    used: u64,
    /// 0 is unlimited.
    quota: u64,
}

impl TreeFacts {
    /// How much more fits; `None` where there is no limit.
    fn room_left(&self) -> Option<u64> {
        let room = self.room.as_ref().filter(|room| room.quota > 0)?;
        Some(room.quota.saturating_sub(room.used))
    }

    async fn read(request: &PageRequest, tree: &FileTree) -> Result<Self, Problem> {
        let may_write = request.may(tree.operations.write);
        let Some(group) = &tree.group else {
            let tenant: Option<Value> = if request.may("get_tenant") {
                request.read("get_tenant", tree.arguments()).await.ok()
            } else {
                None
            };
            let room = tenant.and_then(|tenant| {
                let bytes = |name: &str| tenant["storage"][name].as_u64();
                Some(TreeQuota {
                    used: bytes("usedBytes")?,
                    quota: bytes("quotaBytes").unwrap_or(0),
                })
            });
            return Ok(Self {
                title: request.texts.get("files.workspace").to_owned(),
                may_write,
                room,
            });
        };
        let shares: MemberShareList = request
            .read("list_shares", json!({"tenant_id": tree.tenant}))
            .await?;
        let share = shares
            .shares
            .into_iter()
            .find(|share| share.group_id == *group);
        let share =
            share.ok_or_else(|| Problem::not_found(request.texts.fill("files.no_share", group)))?;
        Ok(Self {
            title: share.display_name,
            may_write: may_write && share.access == "write",
            room: Some(TreeQuota {
                used: share.used_bytes,
                quota: share.quota_bytes,
            }),
        })
    }
}

/// The files of a workspace: a directory, or a file.
pub(super) async fn show_workspace(request: PageRequest) -> Result<String, Problem> {
    let tree = FileTree::of_request(&request)?;
    show(&request, &tree).await
}

/// The files of a share. Without a member in the address, one that may write sees it.
pub(super) async fn show_share(request: PageRequest) -> Result<String, Problem> {
    let tree = match request.query("tenant") {
        Some(_) => FileTree::of_request(&request)?,
        None => FileTree {
            tenant: find_member(&request).await?,
            group: Some(request.path_value("group_id").to_owned()),
            operations: &SHARE,
        },
    };
    show(&request, &tree).await
}

async fn find_member(request: &PageRequest) -> Result<String, Problem> {
    let group = request.path_value("group_id");
    let list: Value = request
        .read("list_members", json!({"group_id": group}))
        .await?;
    let members = list["members"].as_array().map_or(&[][..], Vec::as_slice);
    let writer = members.iter().find(|member| member["access"] == "write");
    let member = writer.or(members.first());
    let member = member.and_then(|member| member["tenantId"].as_str());
    member
        .map(str::to_owned)
        .ok_or_else(|| Problem::precondition(request.texts.fill("files.no_members", group)))
}

async fn show(request: &PageRequest, tree: &FileTree) -> Result<String, Problem> {
    let facts = TreeFacts::read(request, tree).await?;
    if let Some(words) = request.query("search") {
        return search::show(request, tree, &facts, words).await;
    }
    let path = request.query("path").unwrap_or_default();
    let arguments = tree.arguments_with("path", path);
    match request
        .read::<Listing>(tree.operations.list, arguments)
        .await
    {
        Ok(listing) => folder::show(request, tree, facts, listing).await,
        Err(problem) if problem.reason == Some("not_a_directory") && !path.is_empty() => {
            file::show(request, tree, &facts, path).await
        }
        // A home that was linked has a workspace only once something is in it.
        Err(problem) if problem.reason == Some(NO_DIRECTORY) && path.is_empty() => {
            let empty = Listing {
                path: String::new(),
                entries: Vec::new(),
                truncated: false,
            };
            folder::show(request, tree, facts, empty).await
        }
        Err(problem) => Err(problem),
    }
}
