// SPDX-License-Identifier: Apache-2.0
// A user's program: some of the library, and the version that the package claims.
#include <causeway/config/version.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/tensor/dtype.hpp>

#include <atomic>
#include <cstdio>
#include <cstring>

int main() {
  if (std::strcmp(EXPECTED_VERSION, CAUSEWAY_VERSION_STRING) != 0) {
    std::printf("the package says %s, the header %s\n", EXPECTED_VERSION, CAUSEWAY_VERSION_STRING);
    return 1;
  }
  std::atomic<int> calls{0};
  causeway::thread_pool pool{2};
  pool.run([&](unsigned) { ++calls; });
  const bool rounds_to_even = causeway::bf16{1.0F + 0x1p-8F}.bits == causeway::bf16{1.0F}.bits;
  const auto there = causeway::net::parse_endpoint("[::1]:80");  // not in the header where bodies are compiled apart
  return calls == 2 && rounds_to_even && there && there->text() == "[::1]:80" &&
                 causeway::rng{1}.next() == causeway::rng{1}.next()
             ? 0
             : 1;
}
