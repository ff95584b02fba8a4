// A file in the shared folder of a job, by which other hosts see that it is the same folder.
#pragma once

#include <string>

#include "wire/shared_folder.h"

namespace tfdist::agent {

// `mark`: lower-case letters and digits, new for each job; else, and for a path that does not begin
// with a slash, Error(kFiles). All for the file thread: a dead file server answers nobody.
protocol::SharedFolder MakeMark(const std::string& path, const std::string& mark);
protocol::SharedFolder FindMark(const std::string& path, const std::string& mark);
// Also when there is none.
void RemoveMark(const std::string& path, const std::string& mark);

}  // namespace tfdist::agent
