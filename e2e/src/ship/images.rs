// SPDX-License-Identifier: Apache-2.0
//! The images of the Dockerfile, built by buildah from static binaries of this very build. Nothing is pulled.
//!
//! What is released is built by the Dockerfile's other stages: with musl, in release. To build that here would take as long as
//! all tests; these are linked with glibc, in the profile of the tests, and are alike in all that is looked at.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tar::Archive;
use tensile_testkit::shipped::repository;
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::cargo;
use crate::cluster::Cluster;
use crate::folder::Folder;

/// Each program that has an image.
pub const PROGRAMS: [&str; 5] = ["virtual-node", "webhook", "descheduler", "multi-scheduler", "kubectl-tensile"];
/// Name and tag of the image with an unmodified kube-scheduler.
pub const SCHEDULER: (&str, &str) = ("example.org/kube-scheduler", "1");
/// The version of everything here.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Archives of images, as `docker save` writes them.
pub struct Images {
    folder: Folder,
}

/// What is in an archive.
#[derive(Debug)]
pub struct Contents {
    /// The configuration of the image.
    pub config: Value,
    /// What the layers hold: path, and its kind, mode and size.
    pub files: BTreeMap<PathBuf, Held>,
}

/// Something in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Whether it is an ordinary file.
    pub file: bool,
    /// Its mode.
    pub mode: u32,
    /// Its size in bytes.
    pub size: u64,
}

impl Images {
    /// Those that all tests of this binary share.
    pub async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceCell<Images> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::build).await
    }

    /// The archive of a program's image.
    pub fn archive(&self, program: &str) -> PathBuf {
        self.folder.join(format!("{program}.tar"))
    }

    /// Adds the image [`SCHEDULER`], with the kube-scheduler of a cluster, and returns its archive.
    pub async fn scheduler_of(&self, cluster: &Cluster) -> anyhow::Result<PathBuf> {
        let context = self.folder.join("scheduler");
        fs::create_dir_all(&context)?;
        fs::copy(cluster.scheduler_path(), context.join("kube-scheduler"))?;
        let file = context.join("Dockerfile");
        fs::write(&file, "FROM scratch\nCOPY kube-scheduler /usr/local/bin/kube-scheduler\nUSER 65532:65532\n")?;
        self.image(&file, None, &context, &format!("{}:{}", SCHEDULER.0, SCHEDULER.1), "kube-scheduler").await
    }

    async fn build() -> anyhow::Result<Self> {
        let images = Self { folder: Folder::new("images")? };
        let (context, dist) = (images.folder.join("context"), images.folder.join("context/dist"));
        fs::create_dir_all(&dist)?;
        let built = cargo::build_static(&images.folder.join("target")).await?;
        for program in PROGRAMS {
            fs::rename(built.join(program), dist.join(program))?;
            let target = format!("{program}-prebuilt");
            let name = format!("docker.io/tensile/{program}:{VERSION}");
            images.image(&repository("Dockerfile"), Some(&target), &context, &name, program).await?;
        }
        Ok(images)
    }

    /// Builds an image, and writes it into an archive.
    async fn image(
        &self,
        dockerfile: &Path,
        target: Option<&str>,
        context: &Path,
        name: &str,
        archive: &str,
    ) -> anyhow::Result<PathBuf> {
        let mut args = vec!["build".to_owned(), "--isolation=chroot".to_owned(), "--pull=never".to_owned()];
        args.extend(target.map(|target| format!("--target={target}")));
        args.extend([format!("--file={}", dockerfile.display()), format!("--tag={name}")]);
        args.push(context.display().to_string());
        self.buildah(&args).await?;
        let path = self.archive(archive);
        self.buildah(&["push".to_owned(), name.to_owned(), format!("docker-archive:{}:{name}", path.display())])
            .await?;
        Ok(path)
    }

    /// buildah, with a storage of its own that goes with the archives.
    async fn buildah(&self, args: &[String]) -> anyhow::Result<()> {
        let mut buildah = Command::new("buildah");
        buildah.arg("--root").arg(self.folder.join("storage")).arg("--runroot").arg(self.folder.join("run"));
        buildah.args(["--storage-driver", "vfs"]).args(args).kill_on_drop(true);
        let output = buildah.output().await;
        let output = output.context("cannot run buildah: `apt-get install --no-install-recommends buildah`")?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "buildah {}: {}: {}", args.join(" "), output.status, told.trim());
        Ok(())
    }
}

/// Reads an archive with one image.
pub fn contents(archive: &Path) -> anyhow::Result<Contents> {
    let mut inside = BTreeMap::new();
    for entry in Archive::new(File::open(archive)?).entries()? {
        let mut entry = entry?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        inside.insert(entry.path()?.to_string_lossy().into_owned(), bytes);
    }
    let named = |name: &Value| {
        let bytes = name.as_str().and_then(|name| inside.get(name));
        bytes.with_context(|| format!("{name} is not in {}", archive.display()))
    };
    let manifest: Value = serde_json::from_slice(inside.get("manifest.json").context("no manifest")?)?;
    let config = serde_json::from_slice(named(&manifest[0]["Config"])?)?;
    let mut files = BTreeMap::new();
    for layer in manifest[0]["Layers"].as_array().context("no layers")? {
        for entry in Archive::new(named(layer)?.as_slice()).entries()? {
            let entry = entry?;
            let header = entry.header();
            let file = header.entry_type().is_file();
            files.insert(entry.path()?.into_owned(), Held { file, mode: header.mode()?, size: header.size()? });
        }
    }
    Ok(Contents { config, files })
}
