// SIGTERM and SIGINT as a descriptor that can be polled.
#pragma once

namespace tfdist::runtime {

// Catches both signals from now on, for the rest of the process. The descriptor, which is never
// closed, becomes readable with the first of them. A handler and not signalfd(2): that needs the
// signals blocked in every thread, and OpenBLAS starts threads before main(). Throws
// Error(kInternal).
int CatchStopSignals();

}  // namespace tfdist::runtime
