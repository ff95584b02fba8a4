#include "agent/process/record.h"

#include <zlib.h>

#include <bit>
#include <cstring>

namespace tfdist::agent {
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as memory has them");

constexpr std::string_view kMagic = "TFDR";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeadBytes = kMagic.size() + sizeof kVersion;

template <typename Number>
void Append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

uint32_t Checksum(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

template <typename Number>
Number NumberAt(std::string_view bytes, size_t position) {
  Number number{};
  std::memcpy(&number, bytes.data() + position, sizeof number);
  return number;
}

}  // namespace

RecordWriter::RecordWriter() : bytes_(kMagic) { Append(bytes_, kVersion); }

RecordWriter& RecordWriter::Put(uint64_t number) {
  Append(bytes_, number);
  return *this;
}

RecordWriter& RecordWriter::Put(std::string_view text) {
  Put(text.size());
  bytes_ += text;
  return *this;
}

RecordWriter& RecordWriter::Put(const std::vector<std::string>& texts) {
  Put(texts.size());
  for (const std::string& text : texts) Put(std::string_view(text));
  return *this;
}

std::string RecordWriter::Finish() {
  Append(bytes_, Checksum(bytes_));
  return std::move(bytes_);
}

RecordReader::RecordReader(std::string record)
    : record_(std::move(record)), next_(kHeadBytes), end_(record_.size() - sizeof(uint32_t)) {}

std::optional<RecordReader> RecordReader::Open(std::string record) {
  if (record.size() < kHeadBytes + sizeof(uint32_t) || !record.starts_with(kMagic) ||
      NumberAt<uint32_t>(record, kMagic.size()) != kVersion) {
    return std::nullopt;
  }
  const size_t end = record.size() - sizeof(uint32_t);
  if (NumberAt<uint32_t>(record, end) != Checksum(std::string_view(record).substr(0, end))) {
    return std::nullopt;
  }
  return RecordReader(std::move(record));
}

std::string_view RecordReader::Take(uint64_t size) {
  if (!good_ || size > end_ - next_) {
    good_ = false;
    return {};
  }
  const std::string_view taken = std::string_view(record_).substr(next_, size);
  next_ += size;
  return taken;
}

uint64_t RecordReader::Number() {
  const std::string_view bytes = Take(sizeof(uint64_t));
  return bytes.empty() ? 0 : NumberAt<uint64_t>(bytes, 0);
}

std::string RecordReader::Text() { return std::string(Take(Number())); }

std::vector<std::string> RecordReader::Texts() {
  std::vector<std::string> texts;
  for (uint64_t left = Number(); left > 0 && good_; --left) texts.push_back(Text());
  return texts;
}

}  // namespace tfdist::agent
