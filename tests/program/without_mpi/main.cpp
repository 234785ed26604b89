// SPDX-License-Identifier: Apache-2.0
// What the program does where it was built without MPI, in whatever build this is: nothing that a launcher of MPI started
// is refused, and who asks for sites of ranks is told which package is missing.

#include <causeway/core/error.hpp>

#include <cstdio>
#include <string>

#include "mpi_job.hpp"

namespace {

const char* failed = nullptr;

void check(bool holds, const char* what) {
  if (!holds) failed = what;
}

std::string said;

int say(const causeway::error& what, bool aloud) {
  if (aloud) said += what.text() + "\n";
  return 7;
}

}  // namespace

int main() {
  app::mpi_job job{"train"};
  app::settings s;
  check(bool{job.enter(s, {})}, "without sites, ranks meet over TCP");
  check(!job.ranks_are_peers() && !job.computes_for_another(), "no rank of MPI");

  s.net.sites = 2;
  const auto entered = job.enter(s, {});
  check(!entered && entered.error().code == causeway::errc::unsupported, "sites need MPI");
  const std::string text = entered ? "" : entered.error().text();
  for (const char* part : {"net.sites", "without MPI", "libopenmpi-dev", "libmpich-dev"}) {
    check(text.find(part) != std::string::npos, part);
  }
  check(job.end(entered.error(), say) == 7 && said == text + "\n", "said once");
  check(bool{job.leave(false)}, "nothing to leave");

  if (failed != nullptr) std::fprintf(stderr, "failed: %s; it said: %s\n", failed, text.c_str());
  return failed == nullptr ? 0 : 1;
}
