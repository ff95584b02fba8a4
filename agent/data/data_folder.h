// `<base>/data/<key>/`: data of one content, which all jobs of this account read here.
//
//   lock         held by whoever unpacks it, with that job's name in it; shared by those that look
//   packed/      what has come, by hash. What is no file of the data itself stays, for other hosts
//   new.XXXXXX/  what is being unpacked
//   content/     all of it, read-only: renamed when it is whole and on disk
//   done         the mark: written after that. Jobs that use the data touch it each hour; two weeks after that all goes
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "agent/files/file_store.h"
#include "agent/files/folder_lock.h"
#include "wire/data.h"

namespace tfdist::agent {

inline constexpr const char* kDoneMark = "done";

class DataFolder {
 public:
  // Throws Error(kFiles) for what is no key.
  DataFolder(const std::filesystem::path& base, const std::string& key);

  [[nodiscard]] std::filesystem::path Content() const { return path_ / "content"; }
  [[nodiscard]] std::filesystem::path Mark() const { return path_ / kDoneMark; }

  // Whether all of it is there; it counts as used then.
  [[nodiscard]] bool Use() const;
  // Which parts are missing: `store` expects them here. `needed_bytes` grows by what the disk must have room for.
  void Expect(FileStore& store, const protocol::DataOffer& offer, std::vector<std::string>& missing,
              uint64_t& needed_bytes) const;
  // Once all parts are there. Returns another job that unpacks it just now; nullopt: it is unpacked. Blocks on the disk.
  // Throws Error(kFiles), also once `stop` is requested, and leaves nothing then.
  [[nodiscard]] std::optional<std::string> Unpack(const FilePlaces& places,
                                                  const protocol::DataOffer& offer,
                                                  const std::string& job,
                                                  const std::stop_token& stop) const;

 private:
  [[nodiscard]] std::filesystem::path Packed(const std::string& sha256) const;
  [[nodiscard]] bool IsMade() const;
  // `made`: the data is complete, so the file in it is taken without hashing it again.
  [[nodiscard]] bool IsHere(FileStore& store, const protocol::FileDescription& file,
                            bool made) const;
  void RemoveUnfinished() const;
  void Make(const FilePlaces& places, const protocol::DataOffer& offer,
            const std::stop_token& stop) const;
  void Fill(const FilePlaces& places, const protocol::DataOffer& offer,
            const std::filesystem::path& folder, const std::stop_token& stop) const;

  std::filesystem::path path_;
};

// Removes `<base>/data/<key>`, the mark first: after a removal that was cut off, nothing there counts as made. It stays while a
// job unpacks it, where one has used it since `unused_since`, and where something is mounted in it. Returns why it stays;
// nullopt: it is gone.
std::optional<WhyItStays> RemoveData(const std::filesystem::path& path,
                                     std::filesystem::file_time_type unused_since);

// Removes from `<base>/data` what nobody has used since `oldest`.
void RemoveOldData(const std::filesystem::path& base, std::filesystem::file_time_type oldest);

}  // namespace tfdist::agent
