# A cross compiler of Debian or Ubuntu (g++-aarch64-linux-gnu), for the agent and its libraries, which scripts/setup --aarch64
# builds into TFDIST_DEPS_DIR/prefix-aarch64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TFDIST_DEPS_DIR)

# Libraries for this machine are none for that one. Headers without code of their own (nlohmann/json, zmq.hpp) lie in
# /usr/include, where this compiler looks as well.
set(CMAKE_FIND_ROOT_PATH "${TFDIST_DEPS_DIR}/prefix-aarch64" /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(ENV{PKG_CONFIG_LIBDIR} "${TFDIST_DEPS_DIR}/prefix-aarch64/lib/pkgconfig")
