"""Floor 3: modules, layers and their functional forms."""
