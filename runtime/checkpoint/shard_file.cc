#include "runtime/checkpoint/shard_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json_numbers.h"
#include "runtime/common/crc32c.h"

namespace tfdist::runtime {
namespace {

using nlohmann::json;

constexpr const char* kShardFormat = "tfdist-checkpoint-1";
constexpr size_t kLengthBytes = sizeof(uint64_t);
constexpr size_t kMaxHeaderBytes = size_t{100} << 20;  // of safetensors itself
constexpr size_t kAlignment = 8;

uint64_t BytesOf(const TensorSource& tensor) {
  uint64_t bytes = 0;
  for (const HeldFloats& piece : tensor.pieces) bytes += piece.values.size_bytes();
  return bytes;
}

uint64_t BlocksOf(uint64_t bytes) { return (bytes + kCrcBlockBytes - 1) / kCrcBlockBytes; }

json ToJson(const ShardVariable& variable) {
  return {{"part", variable.part.name},
          {"part_shape", variable.part.shape},
          {"whole", variable.origin.whole},
          {"whole_shape", variable.origin.shape},
          {"first", variable.origin.first}};
}

ShardVariable VariableFrom(const json& from) {
  return {{from.at("part"), from.at("part_shape")},
          {from.at("whole"), from.at("whole_shape"), from.at("first")}};
}

json ToJson(const TablePart& part) {
  return {{"table", part.table},
          {"rows", part.rows},
          {"width", part.width},
          {"first", part.first},
          {"step", part.step}};
}

TablePart TableFrom(const json& from) {
  TablePart part{from.at("table"), from.at("rows"), from.at("width"), from.at("first"),
                 from.at("step")};
  if (part.rows == 0 || part.width == 0 || part.step == 0) {
    throw Error(Phase::kFiles, part.table + ": a part without rows");
  }
  if ((part.rows - 1) * uint64_t{part.step} >= std::numeric_limits<uint32_t>::max() - part.first) {
    throw Error(Phase::kFiles, part.table + ": more rows than a table can have");
  }
  return part;
}

// Throws exceptions of the standard library.
json Parse(const std::string& text) {
  json value = json::parse(text);
  if (!NumbersFit(value)) throw std::out_of_range("a number is out of range");
  return value;
}

template <typename Item>
std::string ListText(const std::vector<Item>& items) {
  json list = json::array();
  for (const Item& item : items) list.push_back(ToJson(item));
  return list.dump();
}

// As long for all checksums of as many blocks.
std::string CrcText(const std::vector<uint32_t>& crcs) {
  std::string text;
  for (const uint32_t crc : crcs) text += Crc32cText(crc);
  return text;
}

json MetadataOf(const ShardInfo& info, const std::vector<uint32_t>& crcs) {
  return {{"format", kShardFormat},
          {"id", fmt::format("{:016x}", info.id)},
          {"step", std::to_string(info.step)},
          {"optimizer", info.optimizer},
          {"update", info.update_mode},
          {"variables", ListText(info.variables)},
          {"tables", ListText(info.tables)},
          {"crc32c", CrcText(crcs)}};
}

// With the length in front, and spaces behind up to where tensors may begin.
std::string HeaderOf(const ShardInfo& info, const std::vector<TensorSpec>& specs,
                     const std::vector<uint64_t>& bytes, const std::vector<uint32_t>& crcs) {
  json header = {{"__metadata__", MetadataOf(info, crcs)}};
  uint64_t begin = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    header[specs[i].name] = {
        {"dtype", "F32"}, {"shape", specs[i].shape}, {"data_offsets", {begin, begin + bytes[i]}}};
    begin += bytes[i];
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

void WriteAt(int fd, std::string_view bytes, off_t offset, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw Error(Phase::kFiles, WithErrno("cannot write " + name, errno));
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += put;
  }
}

// Pieces of this size and more are written from where they are.
constexpr size_t kDirectBytes = size_t{64} << 10;

// Writes tensor data, and keeps the checksums of its blocks.
class BlockWriter {
 public:
  BlockWriter(int fd, std::string name, const std::stop_token& stop)
      : fd_(fd), name_(std::move(name)), stop_(stop) {}

  void Add(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, kCrcBlockBytes - in_block_);
      bytes.remove_prefix(part.size());
      crc_ = Crc32c(part, crc_);
      in_block_ += part.size();
      Write(part);
      if (in_block_ == kCrcBlockBytes) EndBlock();
    }
  }
  std::vector<uint32_t> Finish() {
    if (in_block_ > 0) EndBlock();
    Flush();
    return std::move(crcs_);
  }

 private:
  void EndBlock() {
    if (stop_.stop_requested()) throw Error(Phase::kFiles, name_ + ": this server is ending");
    crcs_.push_back(std::exchange(crc_, 0));
    in_block_ = 0;
  }
  void Write(std::string_view part) {
    if (part.size() < kDirectBytes) {
      small_.append(part);
      if (small_.size() >= kDirectBytes) Flush();
    } else {
      Flush();
      WriteAll(fd_, part, name_);
    }
  }
  void Flush() {
    WriteAll(fd_, small_, name_);
    small_.clear();
  }

  int fd_;
  std::string name_;
  const std::stop_token& stop_;
  std::string small_;  // not yet written
  uint32_t crc_ = 0;   // of the block so far
  size_t in_block_ = 0;
  std::vector<uint32_t> crcs_;
};

void Sync(int fd, const std::string& name) {
  if (fsync(fd) != 0) throw Error(Phase::kFiles, WithErrno("cannot sync " + name, errno));
}

ShardFacts WriteInto(int fd, const std::string& name, const ShardInfo& info,
                     std::vector<TensorSource> tensors, const std::stop_token& stop) {
  std::vector<TensorSpec> specs;
  std::vector<uint64_t> bytes;
  uint64_t all = 0;
  for (const TensorSource& tensor : tensors) {
    specs.push_back(tensor.spec);
    bytes.push_back(BytesOf(tensor));
    all += bytes.back();
  }
  // The checksums are known once all is written.
  std::string header = HeaderOf(info, specs, bytes, std::vector<uint32_t>(BlocksOf(all)));
  WriteAll(fd, header, name);
  BlockWriter writer(fd, name, stop);
  for (TensorSource& tensor : tensors) {
    for (HeldFloats& piece : tensor.pieces) {
      writer.Add({reinterpret_cast<const char*>(piece.values.data()), piece.values.size_bytes()});
      piece.holder.reset();
    }
  }
  header = HeaderOf(info, specs, bytes, writer.Finish());
  WriteAt(fd, header, 0, name);
  Sync(fd, name);
  return {header.size() + all, Crc32c(header)};
}

}  // namespace

std::string TensorName(const TablePart& part) {
  if (part.first == 0 && part.step == 1) return part.table;
  return fmt::format("{}/rows_{}_step_{}", part.table, part.first, part.step);
}

std::string StateName(const std::string& variable) { return variable + "#powers"; }

ShardFacts WriteShard(const std::filesystem::path& path, const ShardInfo& info,
                      std::vector<TensorSource> tensors, const std::stop_token& stop) {
  const std::string aside = fmt::format("{}.{:016x}.tmp", path.string(), info.id);
  try {
    const UniqueFd fd = OpenFile(aside, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    const ShardFacts facts = WriteInto(fd.get(), aside, info, std::move(tensors), stop);
    if (rename(aside.c_str(), path.c_str()) != 0) {
      throw Error(Phase::kFiles, WithErrno("cannot replace " + path.string(), errno));
    }
    SyncFolder(path.has_parent_path() ? path.parent_path() : ".");
    return facts;
  } catch (const Error&) {
    unlink(aside.c_str());  // what is left would only take room
    throw;
  }
}

ShardFile::ShardFile(const std::filesystem::path& path, const ShardFacts& expected)
    : path_(path), file_(OpenFile(path, O_RDONLY)) {
  struct stat facts {};
  if (fstat(file_.get(), &facts) != 0) {
    throw Error(Phase::kFiles, WithErrno("cannot read " + path_.string(), errno));
  }
  const auto bytes = static_cast<uint64_t>(facts.st_size);
  if (bytes != expected.bytes) {
    throw Error(Phase::kFiles, fmt::format("{} has {} bytes, the manifest says {}", path_.string(),
                                           bytes, expected.bytes));
  }
  ReadHeader(expected);
}

void ShardFile::ReadHeader(const ShardFacts& expected) {
  const std::string length_text = ReadAt(0, std::min<uint64_t>(kLengthBytes, expected.bytes));
  uint64_t length = 0;
  std::memcpy(&length, length_text.data(), length_text.size());
  if (expected.bytes < kLengthBytes || length > kMaxHeaderBytes ||
      length > expected.bytes - kLengthBytes) {
    throw Error(Phase::kFiles, path_.string() + ": the length of its header is damaged");
  }
  const std::string text = ReadAt(kLengthBytes, length);
  if (Crc32c(text, Crc32c(length_text)) != expected.header_crc) {
    throw Error(Phase::kFiles, path_.string() + ": its header is damaged (checksum)");
  }
  data_begin_ = kLengthBytes + length;
  data_bytes_ = expected.bytes - data_begin_;
  try {
    TakeHeader(text);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // not JSON, or not what belongs there
    throw Error(Phase::kFiles, fmt::format("{}: {}", path_.string(), error.what()));
  }
}

void ShardFile::TakeHeader(const std::string& text) {
  const json header = Parse(text);
  const json& metadata = header.at("__metadata__");
  if (metadata.at("format") != kShardFormat) {
    throw Error(Phase::kFiles, path_.string() + " is of another format than " + kShardFormat);
  }
  info_.id = std::stoull(metadata.at("id").get<std::string>(), nullptr, 16);
  info_.step = std::stoull(metadata.at("step").get<std::string>());
  info_.optimizer = metadata.at("optimizer");
  info_.update_mode = metadata.at("update");
  for (const json& item : Parse(metadata.at("variables").get<std::string>())) {
    info_.variables.push_back(VariableFrom(item));
  }
  for (const json& item : Parse(metadata.at("tables").get<std::string>())) {
    info_.tables.push_back(TableFrom(item));
  }
  const std::string crcs = metadata.at("crc32c");
  for (size_t at = 0; at < crcs.size(); at += 8) {
    crcs_.push_back(static_cast<uint32_t>(std::stoul(crcs.substr(at, 8), nullptr, 16)));
  }
  if (crcs_.size() != BlocksOf(data_bytes_)) {
    throw Error(Phase::kFiles, path_.string() + ": not as many checksums as blocks");
  }
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const uint64_t begin = tensor.at("data_offsets").at(0);
    const uint64_t end = tensor.at("data_offsets").at(1);
    if (begin > end || end > data_bytes_) {
      throw Error(Phase::kFiles, path_.string() + ": " + name + " lies outside of the file");
    }
    tensors_[name] = {begin, end - begin};
  }
}

void ShardFile::Read(const std::string& tensor, uint64_t first, std::span<float> to) {
  const auto found = tensors_.find(tensor);
  const uint64_t floats = found == tensors_.end() ? 0 : found->second.bytes / sizeof(float);
  if (found == tensors_.end() || first > floats || to.size() > floats - first) {
    throw Error(Phase::kFiles, fmt::format("{} has no {} floats of {} from float {} on",
                                           path_.string(), to.size(), tensor, first));
  }
  uint64_t at = found->second.begin + first * sizeof(float);
  auto* into = reinterpret_cast<std::byte*>(to.data());
  for (size_t left = to.size_bytes(); left > 0;) {
    const std::string& block = BlockOf(at / kCrcBlockBytes);
    const size_t within = at % kCrcBlockBytes;
    const size_t count = std::min(left, block.size() - within);
    std::memcpy(into, block.data() + within, count);
    into += count;
    at += count;
    left -= count;
  }
}

const std::string& ShardFile::BlockOf(uint64_t block) {
  if (block == block_number_) return block_;
  const uint64_t begin = block * kCrcBlockBytes;
  block_number_ = UINT64_MAX;
  block_.resize(std::min<uint64_t>(kCrcBlockBytes, data_bytes_ - begin));  // mostly as it was
  ReadInto(block_, data_begin_ + begin);
  if (Crc32c(block_) != crcs_[block]) {
    throw Error(Phase::kFiles,
                fmt::format("{}: bytes {} to {} are damaged (checksum)", path_.string(),
                            data_begin_ + begin, data_begin_ + begin + block_.size() - 1));
  }
  block_number_ = block;
  return block_;
}

std::string ShardFile::ReadAt(uint64_t offset, size_t bytes) const {
  std::string text(bytes, '\0');
  ReadInto(text, offset);
  return text;
}

void ShardFile::ReadInto(std::string& text, uint64_t offset) const {
  for (size_t done = 0; done < text.size();) {
    const ssize_t got = pread(file_.get(), text.data() + done, text.size() - done,
                              static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(Phase::kFiles, WithErrno("cannot read " + path_.string(), errno));
    if (got == 0) throw Error(Phase::kFiles, path_.string() + " became shorter");
    done += static_cast<size_t>(got);
  }
}

}  // namespace tfdist::runtime
