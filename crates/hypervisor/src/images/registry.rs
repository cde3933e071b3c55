//! Disks in registries of containers: an image whose layers have one file in `/disk/`. What is read
//! is what its digest says, from where images may be read.
//!
//! Upstream: opencontainers/distribution-spec, spec.md; kubevirt, docs/container-register-disks.md

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use aws_lc_rs::digest;
use serde_json::Value;

use super::address::Reach;
use super::copy::{beside, create};
use super::fault::Fault;
use super::fetch::{self, Download};
use super::import::{CHUNK_BYTES, OVERHEAD_BYTES, PART, Progress};
use super::open::{Access, open};

/// Beside the disk: a layer of the image.
pub const LAYER: &str = "layer";
const MANIFEST_BYTES_MAX: usize = 4 << 20;
const LAYERS_MAX: usize = 128;
/// What one entry of an archive may be called.
const NAME_BYTES_MAX: u64 = 4_096;
const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";
/// What registries call the processors of this machine.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

/// An image in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Image {
    /// With its scheme.
    server: String,
    repository: String,
    /// A tag or a digest.
    reference: String,
}

impl Image {
    /// `docker://HOST/NAME:TAG`; the host of those that name none is Docker's.
    fn parse(url: &str) -> Option<Image> {
        let rest = url.strip_prefix("docker://")?;
        let (host, path) = match rest.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path),
            Some(_) => ("registry-1.docker.io", rest),
            None => return Image::parse(&format!("docker://library/{rest}")),
        };
        let host = if host == "docker.io" { "registry-1.docker.io" } else { host };
        let (repository, reference) = match path.split_once('@') {
            Some((repository, digest)) => (repository, digest),
            None => path.rsplit_once(':').unwrap_or((path, "latest")),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:".contains(&byte);
        let is_known = |text: &str| !text.is_empty() && text.bytes().all(is_plain);
        if !is_known(repository) || !is_known(reference) || repository.contains("..") {
            return None;
        }
        // As everywhere: only this machine is spoken to without a certificate.
        let name = host.split(':').next().unwrap_or_default();
        let scheme = if ["localhost", "127.0.0.1"].contains(&name) { "http" } else { "https" };
        let (repository, reference) = (repository.to_owned(), reference.to_owned());
        Some(Image { server: format!("{scheme}://{host}"), repository, reference })
    }

    fn url(&self, kind: &str, reference: &str) -> String {
        format!("{}/v2/{}/{kind}/{reference}", self.server, self.repository)
    }
}

/// Somebody who reads an image.
struct Reader {
    image: Image,
    reach: Reach,
    /// What the server gave for that.
    token: Option<String>,
}

/// Reads the disk of an image to beside where it is to be (`part`).
pub async fn receive(
    url: &str,
    reach: Reach,
    (disk, bytes): (&Path, u64),
    progress: &Progress,
) -> Result<(), Fault> {
    let image = Image::parse(url).ok_or_else(|| Fault::Url(url.to_owned()))?;
    let mut reader = Reader { image, reach, token: None };
    let manifest = reader.manifest().await?;
    let layers = manifest["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
    // What is in a later layer is in place of what is in an earlier one.
    for layer in layers.iter().rev().take(LAYERS_MAX) {
        let digest = layer["digest"].as_str().unwrap_or_default().to_owned();
        let length = layer["size"].as_u64().unwrap_or(0);
        if length > bytes + OVERHEAD_BYTES {
            return Err(Fault::TooLarge { image: length, available: bytes });
        }
        let file = beside(disk, LAYER);
        reader.layer((&digest, length), &file, progress).await?;
        let (from, to) = (file.clone(), beside(disk, PART));
        let found = tokio::task::spawn_blocking(move || take_disk(&from, &to, bytes)).await;
        let found = found.map_err(|error| Fault::Broken(error.to_string()))??;
        if found {
            return Ok(());
        }
    }
    Err(Fault::Broken("image directory does not exist: it has no /disk".to_owned()))
}

impl Reader {
    /// The manifest for machines like this one.
    async fn manifest(&mut self) -> Result<Value, Fault> {
        let mut reference = self.image.reference.clone();
        for _ in 0..2 {
            let text = self.small("manifests", &reference).await?;
            if reference.starts_with("sha256:") {
                check(&reference, digest::digest(&digest::SHA256, &text).as_ref())?;
            }
            let broken = |error: serde_json::Error| Fault::Broken(format!("its manifest: {error}"));
            let manifest: Value = serde_json::from_slice(&text).map_err(broken)?;
            let Some(all) = manifest["manifests"].as_array() else { return Ok(manifest) };
            let own = all.iter().find(|one| one["platform"]["architecture"] == ARCHITECTURE);
            let digest = own.and_then(|own| own["digest"].as_str());
            let none = || Fault::Broken(format!("it has nothing for {ARCHITECTURE}"));
            digest.ok_or_else(none)?.clone_into(&mut reference);
        }
        Err(Fault::Broken("its index leads to another".to_owned()))
    }

    async fn small(&mut self, kind: &str, reference: &str) -> Result<Vec<u8>, Fault> {
        let mut download = self.open(kind, reference).await?;
        read_all(&mut download).await
    }

    /// Opens something of the image, with leave if that is asked for.
    async fn open(&mut self, kind: &str, reference: &str) -> Result<Download, Fault> {
        let url = self.image.url(kind, reference);
        for _ in 0..2 {
            let mut headers = vec![("accept", ACCEPT.to_owned())];
            headers.extend(self.token.iter().map(|token| ("authorization", token.clone())));
            match fetch::open_with(&url, self.reach, &headers).await {
                Err(Fault::Unauthorized { challenge, .. }) if self.token.is_none() => {
                    self.token = Some(self.ask_for_leave(&challenge).await?);
                }
                opened => return opened,
            }
        }
        Err(Fault::Status { url, status: 401 })
    }

    /// Gets what anybody gets who asks where the server says.
    async fn ask_for_leave(&self, challenge: &str) -> Result<String, Fault> {
        let refused = || Fault::Status { url: self.image.server.clone(), status: 401 };
        let fields = challenge.strip_prefix("Bearer ").ok_or_else(refused)?;
        let field = |name: &str| {
            let mut all = fields.split(',').map(str::trim);
            let value = all.find_map(|one| one.strip_prefix(name)?.strip_prefix('='));
            value.map(|value| value.trim_matches('"').to_owned())
        };
        let realm = field("realm").ok_or_else(refused)?;
        let service = field("service").unwrap_or_default();
        let scope = format!("repository:{}:pull", self.image.repository);
        let url = format!("{realm}?service={service}&scope={scope}");
        let mut download = fetch::open_with(&url, self.reach, &[]).await?;
        let text = read_all(&mut download).await?;
        let said: Value = serde_json::from_slice(&text).map_err(|_| refused())?;
        let token = said["token"].as_str().or(said["access_token"].as_str());
        token.map(|token| format!("Bearer {token}")).ok_or_else(refused)
    }

    /// Reads a layer into a file.
    async fn layer(
        &mut self,
        (digest_of, length): (&str, u64),
        to: &Path,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let writing = || Fault::io(format!("write {}", to.display()));
        let mut download = self.open("blobs", digest_of).await?;
        let mut file = create(to)?;
        let (mut sum, mut read) = (digest::Context::new(&digest::SHA256), 0_u64);
        while let Some(bytes) = download.next().await? {
            read += bytes.len() as u64;
            if read > length {
                return Err(Fault::Broken("a layer is longer than it is said to be".to_owned()));
            }
            sum.update(&bytes);
            file.write_all(&bytes).map_err(writing())?;
            progress(read as f64 / length.max(1) as f64);
        }
        check(digest_of, sum.finish().as_ref())
    }
}

async fn read_all(download: &mut Download) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    while let Some(bytes) = download.next().await? {
        text.extend_from_slice(&bytes);
        if text.len() > MANIFEST_BYTES_MAX {
            return Err(Fault::Broken("what describes it is too long".to_owned()));
        }
    }
    Ok(text)
}

fn check(wanted: &str, found: &[u8]) -> Result<(), Fault> {
    let hex: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
    let found = format!("sha256:{hex}");
    match found == wanted {
        true => Ok(()),
        false => Err(Fault::Checksum { wanted: wanted.to_owned(), found }),
    }
}

/// Takes the one file in `/disk/` out of a layer; says whether there is that directory.
fn take_disk(layer: &Path, to: &Path, bytes: u64) -> Result<bool, Fault> {
    let reading = || Fault::io(format!("read {}", layer.display()));
    let mut magic = [0; 2];
    let mut file = open(layer, Access::Read).map_err(reading())?;
    file.read_exact(&mut magic).map_err(reading())?;
    let file =
        io::BufReader::with_capacity(CHUNK_BYTES, open(layer, Access::Read).map_err(reading())?);
    match magic {
        [0x1f, 0x8b] => find_disk(flate2::bufread::MultiGzDecoder::new(file), to, bytes),
        [0x28, 0xb5] => Err(Fault::Format("zstd")),
        _ => find_disk(file, to, bytes),
    }
}

fn find_disk(mut archive: impl Read, to: &Path, bytes: u64) -> Result<bool, Fault> {
    let (mut is_there, mut files) = (false, 0);
    let mut long_name: Option<String> = None;
    loop {
        let mut block = [0; 512];
        if !read_block(&mut archive, &mut block)? || block.iter().all(|byte| *byte == 0) {
            break;
        }
        let entry = Entry::read(&block, long_name.take())?;
        if entry.is_long_name() {
            long_name = Some(entry.text(&mut archive)?);
            continue;
        }
        let within = entry.name.trim_start_matches("./").trim_start_matches('/');
        let within = within.strip_prefix("disk").filter(|rest| rest.starts_with('/'));
        is_there |= within.is_some();
        let is_file = within.is_some_and(|rest| rest.len() > 1 && !rest.ends_with('/'));
        match is_file && entry.is_file() {
            true if files > 0 => {
                return Err(Fault::Broken("/disk contains more than one file".to_owned()));
            }
            true => {
                files += 1;
                entry.copy(&mut archive, to, bytes)?;
            }
            false => entry.skip(&mut archive)?,
        }
    }
    match (is_there, files) {
        (true, 0) => Err(Fault::Broken("/disk directory is empty".to_owned())),
        _ => Ok(files > 0),
    }
}

fn broken(error: impl ToString) -> Fault {
    Fault::Broken(format!("a layer: {}", error.to_string()))
}

/// Whether there was another block.
fn read_block(archive: &mut impl Read, block: &mut [u8; 512]) -> Result<bool, Fault> {
    match archive.read_exact(block) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(broken(error)),
    }
}

/// What an archive (tar) says of what follows.
struct Entry {
    name: String,
    kind: u8,
    length: u64,
}

impl Entry {
    fn read(block: &[u8; 512], long_name: Option<String>) -> Result<Entry, Fault> {
        let text = |from: usize, to: usize| {
            let bytes = block[from..to].split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        let prefix = if &block[257..262] == b"ustar" { text(345, 500) } else { String::new() };
        let name = match (long_name, prefix.is_empty()) {
            (Some(name), _) => name,
            (None, true) => text(0, 100),
            (None, false) => format!("{prefix}/{}", text(0, 100)),
        };
        // Long ones are numbers, others are texts.
        let length = match block[124] & 0x80 {
            0 => u64::from_str_radix(text(124, 136).trim(), 8).map_err(broken)?,
            _ => block[128..136].iter().fold(0, |value, byte| value << 8 | u64::from(*byte)),
        };
        Ok(Entry { name, kind: block[156], length })
    }

    fn is_file(&self) -> bool {
        matches!(self.kind, b'0' | 0)
    }

    /// Whether what follows is the name of the next: as GNU says it, or POSIX.
    fn is_long_name(&self) -> bool {
        matches!(self.kind, b'L' | b'x')
    }

    fn padding(&self) -> u64 {
        self.length.next_multiple_of(512) - self.length
    }

    fn text(&self, archive: &mut impl Read) -> Result<String, Fault> {
        if self.length > NAME_BYTES_MAX {
            return Err(broken("a name is too long"));
        }
        let mut text = Vec::new();
        archive.take(self.length).read_to_end(&mut text).map_err(broken)?;
        skip(archive, self.padding())?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(match self.kind {
            b'L' => text.trim_end_matches('\0').to_owned(),
            _ => {
                let mut paths = text.lines().filter_map(|line| line.split_once(" path="));
                paths.next().map(|(_, path)| path.to_owned()).unwrap_or_default()
            }
        })
    }

    fn skip(&self, archive: &mut impl Read) -> Result<(), Fault> {
        skip(archive, self.length.saturating_add(self.padding()))
    }

    fn copy(&self, archive: &mut impl Read, to: &Path, bytes: u64) -> Result<(), Fault> {
        if self.length > bytes + OVERHEAD_BYTES {
            return Err(Fault::TooLarge { image: self.length, available: bytes });
        }
        let mut file: File = create(to)?;
        let copied = io::copy(&mut archive.take(self.length), &mut file);
        if copied.map_err(broken)? < self.length {
            return Err(broken("it is cut off"));
        }
        skip(archive, self.padding())
    }
}

fn skip(archive: &mut impl Read, bytes: u64) -> Result<(), Fault> {
    io::copy(&mut archive.take(bytes), &mut io::sink()).map(drop).map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_found_where_their_names_say() {
        let found = |url: &str| {
            let image = Image::parse(url)?;
            Some(image.url("manifests", &image.reference))
        };
        for (url, expected) in [
            ("docker://quay.io/a/b:1", "https://quay.io/v2/a/b/manifests/1"),
            ("docker://quay.io/a/b", "https://quay.io/v2/a/b/manifests/latest"),
            ("docker://a/b", "https://registry-1.docker.io/v2/a/b/manifests/latest"),
            ("docker://b:2", "https://registry-1.docker.io/v2/library/b/manifests/2"),
            ("docker://localhost:5000/b", "http://localhost:5000/v2/b/manifests/latest"),
            ("docker://q.io/b@sha256:ab", "https://q.io/v2/b/manifests/sha256:ab"),
        ] {
            assert_eq!(found(url).as_deref(), Some(expected), "{url}");
        }
        for url in
            ["http://quay.io/a", "docker://quay.io/", "docker://q.io/a/../b", "docker://q.io/a b"]
        {
            assert_eq!(found(url), None, "{url}");
        }
    }
}
