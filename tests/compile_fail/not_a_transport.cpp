// expect: any_transport
// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/transport.hpp>
#include <causeway/train/environment.hpp>

#include <utility>

auto environment_of(causeway::result<causeway::net::any_transport> transport) {
#ifdef EXPECT_ERROR
  return causeway::environment{.transport = std::move(transport)};
#else
  return causeway::environment{.transport = *std::move(transport)};
#endif
}
