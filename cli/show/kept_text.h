// What `up` says of {keep}, the folder that jobs of one name keep on their hosts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/failures.h"
#include "cli/deploy/deployment.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

// "3 files, 12 MB, the newest ckpt-2000, 22h05m ago".
std::string KeptFilesText(const protocol::KeptFiles& kept);
// "{keep}: h[1-2]: 3 files, 12 MB, the newest ckpt-2000, 22h05m ago; h3: empty". Empty without hosts.
std::string KeptText(const std::vector<KeptOnHost>& kept);

// "alice@laptop, bob@desk": who, other than this user, has started the last jobs there; empty: nobody.
std::string KeptByOthers(const std::vector<KeptOnHost>& kept);

// Why a job called `name` does not start: `kept` is what strangers have.
UsageError KeptByStrangers(const std::string& name, const std::vector<KeptOnHost>& kept);

// The newest earlier job of that name that names {keep}; borrowed. nullptr: there is none.
const JobRecord* LastThatKept(const JobRecord& record, const std::vector<JobRecord>& records);

// The last job of that name ran on hosts that `record` has not, and without {keep}: a warning that names them, since their agents
// are not asked. nullopt: no, or `clean` has removed what lay there.
std::optional<NameWarning> FilesLeftBehind(const JobRecord& record,
                                           const std::vector<JobRecord>& records);

// Hosts of `last` that `record` has not: what lies there, no task of it finds.
std::vector<std::string> HostsLeftBehind(const JobRecord& record, const JobRecord& last);
// Tasks of both that run on another host now, on one of `last` all the same: they find what another task has kept.
std::vector<JobRecord::Task> TasksThatMoved(const JobRecord& record, const JobRecord& last);
// The folder of which `last` was started, where `record` has another one; empty: it has the same, or has none.
std::string OtherFolder(const JobRecord& record, const JobRecord& last);
// The last job of that name there was started from another folder, and has kept files. `name_is_made`: then the new job does not start.
std::optional<UsageError> KeptByAnotherProject(const JobRecord& record,
                                               const std::vector<JobRecord>& records,
                                               bool name_is_made);

}  // namespace tfdist::cli
