// Large files of the work folder, which come one by one.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "agent/files/file_places.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// "data/train.npz" for the link "work/data/train.npz"; nullopt for a link that is not below "work/".
// Throws Error(kFiles) for a path that could leave the work folder.
std::optional<std::string> PathInWork(std::string_view link);

// Copies the file to `path` below the work folder `work`, which has its folders already. It goes
// through no link, and over nothing that is there. `own`: a file of that content that may become it by a hard link.
// Throws Error(kFiles).
void PlaceInWork(const FilePlaces& places, const protocol::FileDescription& file,
                 const std::filesystem::path& work, const std::string& path,
                 const std::filesystem::path& own = {});

// Gives what lies in `work` the times that the file `times` (protocol::kWorkTimes) has for it, and files their modes, once
// all of it is there. An entry whose time cannot be set keeps the time of its arrival. Throws Error(kFiles) for a file that
// is no such list, and once `stop` is requested.
void SetTimesAndModes(const std::filesystem::path& times, const std::filesystem::path& work,
                      const std::stop_token& stop = {});

}  // namespace tfdist::agent
