// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

namespace {
// Simulated peers send each other megabytes all the time. Memory that went back to the system would be cleared, page by
// page, before it came again: a fifth of the time of the largest runs.
[[maybe_unused]] const bool keeps_memory = mallopt(M_MMAP_MAX, 0) != 0 && mallopt(M_TRIM_THRESHOLD, 1 << 30) != 0;
}  // namespace

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
