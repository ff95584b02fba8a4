#include "agent/container/image_load.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string_view>

#include "agent/container/containers.h"
#include "agent/container/engine.h"
#include "base/error.h"
#include "base/file.h"
#include "base/size_text.h"
#include "base/spawn.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

using protocol::EngineKind;
using protocol::WantedImage;

constexpr std::chrono::minutes kLoadLimit{30};
constexpr std::chrono::seconds kImageLookLimit{20};
constexpr int kLoadPauseMs = 20;
constexpr size_t kTarBlockBytes = 512;
constexpr size_t kEndBytes = 2 * kTarBlockBytes;
constexpr size_t kMostPieceBytes = 1 << 20;
constexpr size_t kMostLoadWords = 4096;
// An engine unpacks the archive first, and then its layers.
constexpr uint64_t kCopies = 2;

// By its configuration; where that is no name for it (docker's containerd store), by what is in it.
bool IsIt(const std::optional<ImageFacts>& facts, const WantedImage& image) {
  return facts && (facts->id == image.key || facts->layers == image.layers);
}

bool HasImage(EngineKind kind, const WantedImage& image, TimePoint deadline) {
  if (kind == EngineKind::kApptainer) {
    throw Error(Phase::kCommand, "apptainer takes no image of docker's or podman's",
                "`apptainer build /path/train.sif docker-archive:train.tar` makes an image of it: "
                "image = \"/path/train.sif\"");
  }
  if (IsIt(LookAtImage(kind, image.reference, deadline), image)) return true;
  if (!IsIt(LookAtImage(kind, image.key, deadline), image)) return false;
  const ProgramResult tagged = AskEngine(kind, {"tag", image.key, image.reference}, deadline);
  if (tagged.exit_code == 0) return true;
  throw Error(Phase::kCommand, fmt::format("{} cannot name image {} {}: {}", ProgramOf(kind),
                                           image.key, image.reference, WordsOf(tagged)));
}

void CheckImageRoom(EngineKind kind, const WantedImage& image, TimePoint deadline) {
  const uint64_t free_bytes = FreeIn(FolderOfImages(kind, deadline));
  const uint64_t needed_bytes = kCopies * image.size_bytes;
  if (free_bytes == 0 || free_bytes >= needed_bytes) return;
  throw Error(
      Phase::kCommand,
      fmt::format("no room for image {}: {} needs {} while it takes it in, and {} are free "
                  "where it keeps images",
                  image.reference, ProgramOf(kind), SizeText(needed_bytes), SizeText(free_bytes)),
      fmt::format("`{} image prune` there removes images without a name", ProgramOf(kind)));
}

// The engine's client with a pipe as its stdin. Killed where it is left early.
class Loading {
 public:
  Loading(EngineKind kind, const std::stop_token& stop)
      : kind_(kind), stop_(stop), words_(memfd_create("load", MFD_CLOEXEC)) {
    int ends[2];
    if (!words_.valid() || pipe2(ends, O_CLOEXEC) != 0) {
      throw Error(Phase::kCommand, WithErrno("cannot load an image", errno));
    }
    const UniqueFd read_end(ends[0]);
    pipe_.Reset(ends[1]);
    fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
    pid_ = SpawnProgram(EngineCommand(kind, {"load", "--quiet"}),
                        {.in = read_end.get(), .out = words_.get(), .err = words_.get()},
                        SpawnPlace::kOwnSession, Phase::kCommand);
  }
  ~Loading() {
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);
    (void)waitpid(pid_, nullptr, 0);
  }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

  // False: the client takes nothing more. So for AddFile.
  bool Add(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = write(pipe_.get(), bytes.data(), bytes.size());
      if (!HasSent(sent)) return false;
      bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(sent, 0)));
    }
    return true;
  }

  bool AddFile(const std::string& name, const std::filesystem::path& path) {
    const UniqueFd fd = OpenFile(path, O_RDONLY);
    struct stat info {};
    if (fstat(fd.get(), &info) != 0) throw Error(Phase::kFiles, WithErrno(path.string(), errno));
    const auto size = static_cast<uint64_t>(info.st_size);
    if (!Add(TarHeader(name, size))) return false;
    for (off_t at = 0; at < info.st_size;) {
      const size_t piece = std::min<uint64_t>(size - static_cast<uint64_t>(at), kMostPieceBytes);
      const ssize_t sent = sendfile(pipe_.get(), fd.get(), &at, piece);
      if (sent == 0) throw Error(Phase::kFiles, path.string() + " has become shorter");
      if (!HasSent(sent)) return false;
    }
    return Add(TarPadding(size));
  }

  // Waits for its end.
  ProgramResult Finish() {
    pipe_.Reset();
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      ThrowIfOver();
      poll(nullptr, 0, kLoadPauseMs);
    }
    pid_ = 0;
    ProgramResult result;
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.error_output = Words();
    return result;
  }

 private:
  bool HasSent(ssize_t sent) {
    if (sent >= 0 || errno == EINTR) return true;
    if (errno == EPIPE) return false;
    if (errno != EAGAIN) throw Error(Phase::kCommand, WithErrno("cannot load an image", errno));
    pollfd ready{pipe_.get(), POLLOUT, 0};
    poll(&ready, 1, kLoadPauseMs);
    ThrowIfOver();
    return true;
  }

  void ThrowIfOver() const {
    if (stop_.stop_requested()) throw Error(Phase::kCommand, "loading an image was interrupted");
    if (SystemClock().Now() < deadline_) return;
    throw Error(
        Phase::kCommand,
        fmt::format("{} did not load an image in {} min", ProgramOf(kind_), kLoadLimit.count()),
        "look at that host's disk");
  }

  std::string Words() const {
    const off_t size = lseek(words_.get(), 0, SEEK_END);
    const off_t begin = std::max<off_t>(size - static_cast<off_t>(kMostLoadWords), 0);
    std::string words(kMostLoadWords, '\0');
    const ssize_t got = pread(words_.get(), words.data(), words.size(), begin);
    words.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return words;
  }

  const EngineKind kind_;
  const std::stop_token& stop_;
  const TimePoint deadline_ = SystemClock().Now() + kLoadLimit;
  UniqueFd words_;  // what the client says: a file in memory
  UniqueFd pipe_;
  pid_t pid_ = 0;
};

// Each once.
std::vector<ImageFile> FilesIn(const ImageFiles& files) {
  std::vector<ImageFile> all = {files.config};
  std::set<std::string> seen = {files.config.sha256};
  for (const ImageFile& layer : files.layers) {
    if (seen.insert(layer.sha256).second) all.push_back(layer);
  }
  return all;
}

void LoadInto(EngineKind kind, const WantedImage& image, const ImageFiles& files,
              const std::stop_token& stop) {
  Loading loading(kind, stop);
  const std::string manifest = ManifestOf(image.reference, files);
  bool goes_on = loading.Add(TarHeader("manifest.json", manifest.size()) + manifest +
                             TarPadding(manifest.size()));
  for (const ImageFile& file : FilesIn(files)) {
    goes_on = goes_on && loading.AddFile(file.sha256, file.path);
  }
  if (goes_on) (void)loading.Add(std::string(kEndBytes, '\0'));
  const ProgramResult result = loading.Finish();
  if (result.exit_code != 0) {
    const std::string words = WordsOf(result);
    const std::string remedy = RemedyForImage(kind, words);
    throw Error(Phase::kCommand,
                fmt::format("{} cannot load image {}: {}", ProgramOf(kind), image.reference, words),
                remedy.empty()
                    ? fmt::format("does `{} load` take the archive there?", ProgramOf(kind))
                    : remedy);
  }
  if (HasImage(kind, image, SystemClock().Now() + kImageLookLimit)) return;
  throw Error(Phase::kCommand, fmt::format("{} has made another image of {} than the one that was "
                                           "sent: its id or its layers differ",
                                           ProgramOf(kind), image.reference));
}

std::string Octal(uint64_t number, size_t digits) {
  return fmt::format("{:0{}o}", number, digits) + '\0';
}

// Eleven octal digits; a larger size is binary, with the first bit set (GNU tar, Go).
std::string SizeField(uint64_t size_bytes) {
  constexpr uint64_t kLeastBinary = uint64_t{1} << 33;
  if (size_bytes < kLeastBinary) return Octal(size_bytes, 11);
  std::string field(12, '\0');
  field[0] = '\x80';
  for (size_t at = field.size(); size_bytes > 0; size_bytes >>= 8) {
    field[--at] = static_cast<char>(size_bytes & 0xff);
  }
  return field;
}

}  // namespace

bool HasImage(const WantedImage& image, TimePoint deadline) {
  bool has_it = true;
  for (const EngineKind wanted : image.engines) {
    const Engine engine = FindEngine(wanted, deadline);
    if (HasImage(engine.kind, image, deadline)) continue;
    CheckImageRoom(engine.kind, image, deadline);
    has_it = false;
  }
  return has_it;
}

void LoadImage(const WantedImage& image, const ImageFiles& files, const std::stop_token& stop) {
  for (const EngineKind wanted : image.engines) {
    const TimePoint deadline = SystemClock().Now() + kImageLookLimit;
    const Engine engine = FindEngine(wanted, deadline);
    if (!HasImage(engine.kind, image, deadline)) LoadInto(engine.kind, image, files, stop);
  }
}

std::string ManifestOf(const std::string& reference, const ImageFiles& files) {
  nlohmann::json one;
  one["Config"] = files.config.sha256;
  one["RepoTags"] = {reference};
  one["Layers"] = nlohmann::json::array();
  for (const ImageFile& layer : files.layers) one["Layers"].push_back(layer.sha256);
  return nlohmann::json::array({one}).dump();
}

// The places of a header: POSIX.1-2017, pax, "ustar Interchange Format".
std::string TarHeader(const std::string& name, uint64_t size_bytes) {
  constexpr size_t kChecksum = 148;
  std::string header(kTarBlockBytes, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 8, Octal(0644, 7));
  header.replace(108, 8, Octal(0, 7));
  header.replace(116, 8, Octal(0, 7));
  header.replace(124, 12, SizeField(size_bytes));
  header.replace(136, 12, Octal(0, 11));
  header.replace(kChecksum, 8, 8, ' ');
  header[156] = '0';
  header.replace(257, 8, std::string_view("ustar\00000", 8));
  const auto sum = std::accumulate(header.begin(), header.end(), uint64_t{0},
                                   [](uint64_t all, unsigned char c) { return all + c; });
  return header.replace(kChecksum, 7, Octal(sum, 6));
}

std::string TarPadding(uint64_t size_bytes) {
  return std::string((kTarBlockBytes - size_bytes % kTarBlockBytes) % kTarBlockBytes, '\0');
}

}  // namespace tfdist::agent
