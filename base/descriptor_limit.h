// How many descriptors this process may have open.
#pragma once

#include <sys/resource.h>

namespace tfdist {

// Raises the soft limit as far as the hard one allows, to 65536 at most: a connection costs several
// descriptors, and some systems begin with 256. Once, by main, before there are threads.
void RaiseDescriptorLimit();

// The soft limit that this process was started with: what programs expect that it starts.
rlim_t InheritedDescriptorLimit();

}  // namespace tfdist
