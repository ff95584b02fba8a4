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
#include <string>
#include <vector>

#include "agent/files/file_store.h"
#include "wire/data.h"

namespace tfdist::agent {

class DataFolder {
 public:
  // Throws Error(kFiles) for what is no key.
  DataFolder(const std::filesystem::path& base, const std::string& key);

  [[nodiscard]] std::filesystem::path Content() const { return path_ / "content"; }
  [[nodiscard]] std::filesystem::path Mark() const { return path_ / "done"; }

  // Whether all of it is there; it counts as used then.
  [[nodiscard]] bool Use() const;
  // Which parts are missing: `store` expects them here. `needed_bytes` grows by what the disk must have room for.
  void Expect(FileStore& store, const protocol::DataOffer& offer, std::vector<std::string>& missing,
              uint64_t& needed_bytes) const;
  // Once all parts are there. Returns the job that unpacks it just now, to be asked again; nullopt: it is unpacked. Blocks
  // on the disk. Throws Error(kFiles), and leaves nothing then.
  [[nodiscard]] std::optional<std::string> Unpack(const FileStore& store,
                                                  const protocol::DataOffer& offer,
                                                  const std::string& job) const;

 private:
  [[nodiscard]] std::filesystem::path Packed(const std::string& sha256) const;
  [[nodiscard]] bool IsMade() const;
  void RemoveUnfinished() const;
  void Make(const FileStore& store, const protocol::DataOffer& offer) const;
  void Fill(const FileStore& store, const protocol::DataOffer& offer,
            const std::filesystem::path& folder) const;

  std::filesystem::path path_;
};

// Removes from `<base>/data` what nobody has used since `oldest`.
void RemoveOldData(const std::filesystem::path& base, std::filesystem::file_time_type oldest);

}  // namespace tfdist::agent
