#include "cli/deploy/packed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size_text.h"

namespace tfdist::cli {
namespace {

constexpr size_t kBlockBytes = 256 * 1024;
constexpr const char* kRoomForIt = "make room there, or set TMPDIR to a folder with space";

std::string ReadAt(int fd, uint64_t offset, size_t count) {
  std::string block(count, '\0');
  ssize_t got = -1;
  do {
    got = pread(fd, block.data(), block.size(), static_cast<off_t>(offset));
  } while (got < 0 && errno == EINTR);
  if (got < 0) throw Error(Phase::kFiles, WithErrno("cannot read a file to be sent", errno));
  block.resize(static_cast<size_t>(got));
  return block;
}

// zlib's stream in gzip format (window bits + 16), with its memory freed at the end.
class GzipWriter {
 public:
  GzipWriter(int out, int level) : out_(out) {
    if (deflateInit2(&stream_, level, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
      throw Error(Phase::kInternal, "zlib: deflateInit2 failed");
    }
  }
  ~GzipWriter() { deflateEnd(&stream_); }
  GzipWriter(const GzipWriter&) = delete;
  GzipWriter& operator=(const GzipWriter&) = delete;

  void Write(std::string& block, bool last) {
    stream_.next_in = reinterpret_cast<Bytef*>(block.data());
    stream_.avail_in = static_cast<uInt>(block.size());
    do {
      char buffer[65536];
      stream_.next_out = reinterpret_cast<Bytef*>(buffer);
      stream_.avail_out = sizeof buffer;
      deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
      const size_t made = sizeof buffer - stream_.avail_out;
      WriteTemporary(out_, {buffer, made});
      written_ += made;
    } while (stream_.avail_out == 0);
  }
  [[nodiscard]] uint64_t written() const { return written_; }

 private:
  z_stream stream_{};
  int out_;
  uint64_t written_ = 0;
};

}  // namespace

// Compressing must not hold the network up. Of what is compressed already nothing is gained, at the price of most of the time
// (pictures, checkpoints, .npz). A piece in the middle tells: heads are often plain.
int LevelFor(const FileRange& content) {
  constexpr int kFastLevel = 1;
  constexpr int kStored = 0;
  constexpr size_t kSampleBytes = 128 * 1024;
  constexpr double kWorthIt = 0.95;
  const uint64_t middle = content.size_bytes / 2;
  const std::string sample = ReadAt(content.fd, content.begin + middle,
                                    std::min<uint64_t>(kSampleBytes, content.size_bytes - middle));
  if (sample.empty()) return kFastLevel;
  uLongf packed_bytes = compressBound(sample.size());
  std::string packed(packed_bytes, '\0');
  const int rc =
      compress2(reinterpret_cast<Bytef*>(packed.data()), &packed_bytes,
                reinterpret_cast<const Bytef*>(sample.data()), sample.size(), kFastLevel);
  const bool shrinks =
      static_cast<double>(packed_bytes) < kWorthIt * static_cast<double>(sample.size());
  return rc == Z_OK && !shrinks ? kStored : kFastLevel;
}

std::string FolderOfTemporaryFiles() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder == '/' ? folder : "/tmp";
}

void CheckTemporaryRoom(uint64_t bytes) {
  struct statvfs info {};
  const std::string folder = FolderOfTemporaryFiles();
  if (statvfs(folder.c_str(), &info) != 0) return;  // making the file says why
  const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  if (free_bytes >= bytes) return;
  throw Error(Phase::kFiles,
              fmt::format("no room for temporary files in {}: {} are needed, and {} are free",
                          folder, SizeText(bytes), SizeText(free_bytes)),
              kRoomForIt);
}

void WriteTemporary(int fd, std::string_view bytes) {
  try {
    WriteAll(fd, bytes, "a temporary file in " + FolderOfTemporaryFiles());
  } catch (const Error& error) {
    throw Error(error.phase(), error.cause(), kRoomForIt);
  }
}

UniqueFd TemporaryFile() {
  std::string name = FolderOfTemporaryFiles() + "/tfdist.XXXXXX";
  UniqueFd fd(mkostemp(name.data(), O_CLOEXEC));
  if (!fd.valid()) {
    throw Error(Phase::kFiles, WithErrno("cannot make a temporary file " + name, errno),
                kRoomForIt);
  }
  unlink(name.c_str());
  return fd;
}

PackedFile::PackedFile(const FileRange& content, int level, bool executable, std::string link)
    : PackedFile(content, level, executable, std::move(link),
                 std::make_shared<UniqueFd>(TemporaryFile()), [] {}) {}

PackedFile::PackedFile(const FileRange& content, int level, bool executable, std::string link,
                       std::shared_ptr<UniqueFd> spool, const std::function<void()>& meanwhile)
    : spool_(std::move(spool)) {
  const off_t end = lseek(spool_->get(), 0, SEEK_END);
  if (end < 0) throw Error(Phase::kFiles, WithErrno("cannot use a temporary file", errno));
  begin_ = static_cast<uint64_t>(end);
  const bool size_is_known = level == 0 && content.size_bytes != UINT64_MAX;
  if (size_is_known) CheckTemporaryRoom(content.size_bytes);
  GzipWriter writer(spool_->get(), level);
  Sha256 hash;
  uint64_t size_bytes = 0;
  while (true) {
    const uint64_t left = content.size_bytes - size_bytes;
    std::string block =
        ReadAt(content.fd, content.begin + size_bytes, std::min<uint64_t>(kBlockBytes, left));
    hash.Update(block);
    size_bytes += block.size();
    writer.Write(block, block.empty());
    meanwhile();
    if (block.empty()) break;
  }
  gzip_size_bytes_ = writer.written();
  description_ = {hash.FinishHex(), size_bytes, executable, std::move(link)};
}

std::string PackedFile::Read(uint64_t offset, size_t count) const {
  const uint64_t left = gzip_size_bytes_ - std::min(gzip_size_bytes_, offset);
  return ReadAt(spool_->get(), begin_ + offset, std::min<uint64_t>(count, left));
}

}  // namespace tfdist::cli
