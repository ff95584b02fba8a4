// A job that another machine has started, found by its hosts: `tfdist status -H gpu1,gpu2 train`.
#pragma once

#include <string>
#include <vector>

#include "cli/show/consent.h"

namespace tfdist::cli {

// What -H and its company say.
struct JobPlace {
  std::string hosts;
  std::string ssh_config;
  std::string transport;
};

// The id of the job that `word` means there: a name, an id, or empty for any job. The running one of several, else the one that
// ended last; one line says which. What the deed needs the user's word for (consent.h) is asked for; to change a job, it must be
// named. A record of it is kept on this machine, so that every command knows it from now on. Throws NoSuchJob, AmbiguousJob,
// UsageError.
std::string KnowJobOnHosts(const JobPlace& place, const std::string& word, Deed deed);

// Where `place` names hosts: `word` becomes that id, to look at it.
void FindOnHosts(const JobPlace& place, std::string& word);
// The same of each word; of the job that no word means where there is none.
void FindOnHosts(const JobPlace& place, std::vector<std::string>& jobs, Deed deed);
// The same of [JOB] [TASK|@HOST...].
void FindJobOfWords(const JobPlace& place, std::vector<std::string>& words, Deed deed);

}  // namespace tfdist::cli
