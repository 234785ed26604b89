// SPDX-License-Identifier: Apache-2.0
#include "support/models.hpp"

#ifndef CAUSEWAY_COMPILED  // else the library has them
template class causeway::nn::language_model<causeway::nn::gpt_family>;
template class causeway::nn::language_model<causeway::nn::llama_family>;
#endif
